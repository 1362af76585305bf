package e2e

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/ownership"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/soak"
)

// startStrictWorkers is a site on one server, without a proxy in between.
func startStrictWorkers(t *testing.T, workers int, tags ...string) *strictSite {
	t.Helper()
	ns := natstest.Start(t)
	s := &strictSite{t: t, urls: []string{ns.URL()}, conn: ns.Connect(t), workers: make([]*process, workers), tags: tags}
	for i := range workers {
		s.join(i)
	}
	for _, tag := range tags {
		must(t, "tag", "create", "--server", ns.URL(), tag, "--order", "strict", "--step", "1000")
	}
	s.served(tags...)
	return s
}

// join starts a worker.
func (s *strictSite) join(i int) { s.workers[i] = startWorker(s.t, s.urls[0]) }

// steadily asks for IDs of each tag with the Go client, whose calls wait for up to 10 s.
func (s *strictSite) steadily(perSecond int, tags ...string) (loads []*steady) {
	client := messages.NewClient(connect(s.t, s.urls[0], nats.MaxReconnects(-1)), messages.DefaultPrefix)
	for _, tag := range tags {
		load := &steady{timeout: 10 * time.Second, stop: make(chan struct{})}
		load.next = func(ctx context.Context) (int64, error) { return client.Next(ctx, tag) }
		load.start(s.t, perSecond)
		loads = append(loads, load)
	}
	return loads
}

// noneFailed stops loads, and fails the test for each error. It returns how long the longest
// call took.
func noneFailed(t *testing.T, loads ...*steady) (longest time.Duration) {
	t.Helper()
	for _, load := range loads {
		load.finish()
		answers := load.since(0)
		if at := firstError(answers); at >= 0 {
			_, errs := split(answers)
			t.Errorf("%d of %d requests with a context of 10 s failed, the first with: %v", errs, len(answers), answers[at].err)
		}
		for _, a := range answers {
			longest = max(longest, a.received.Sub(a.sent))
		}
	}
	return longest
}

// eight tags, so that each of a few workers owns some.
func eightTags() (tags []string) {
	for i := range 8 {
		tags = append(tags, fmt.Sprintf("strict%d", i))
	}
	return tags
}

// TestStrictOwnersGo has owners stop, and die. It bounds how late an answer may be, and runs alone.
func TestStrictOwnersGo(t *testing.T) {
	s := startStrictWorkers(t, 4, eightTags()...)
	createTag(t, s.urls[0], "ordinary")
	knownToAll(t, s.urls[0], "ordinary", 4)
	t.Run("clean stop", func(t *testing.T) { testCleanStop(t, s) })
	t.Run("killed", func(t *testing.T) { testOwnerKilled(t, s) })
}

// testOwnerKilled kills the worker that owns most. Each of its tags is answered again within its
// lease and a second, and no call of the Go client fails.
func testOwnerKilled(t *testing.T, s *strictSite) {
	const within = ownership.DefaultLeaseTime + time.Second
	for range soak.Pick(1, 10) {
		patient := s.steadily(10, s.tags...)
		probes := s.probe()
		victim := s.richest()
		owned := s.owned()[s.workers[victim].instance()]
		s.workers[victim].kill()
		killed := time.Now()
		natstest.Eventually(t, readyWithin, "all tags are answered again", func() bool {
			return !slices.Contains(firstSince(probes, killed), 0)
		})
		again := slices.Max(firstSince(probes, killed))
		for _, p := range probes {
			p.finish()
		}
		longest := noneFailed(t, patient...)
		t.Logf("the owner of %d slots was killed: all tags are answered again after %v, the longest call of a client took %v",
			owned, again.Round(time.Millisecond), longest.Round(time.Millisecond))
		if again > within {
			t.Errorf("all tags are answered again after %v, want within %v", again, within)
		}
		s.join(victim)
	}
}

// probe asks for an ID of each tag all the time, each request once.
func (s *strictSite) probe() (loads []*steady) {
	for _, tag := range s.tags {
		client := dial(s.t, s.urls[0])
		load := &steady{timeout: 5 * time.Second, stop: make(chan struct{})}
		load.next = func(ctx context.Context) (int64, error) { return client.Next(ctx, tag) }
		load.start(s.t, 25)
		loads = append(loads, load)
	}
	return loads
}

// firstSince is how long after a moment each load had the first answer to a request that was
// sent after it, 0 for none so far.
func firstSince(loads []*steady, moment time.Time) (first []time.Duration) {
	for _, load := range loads {
		var found time.Duration
		for _, a := range load.since(0) {
			if a.err == nil && a.sent.After(moment) && (found == 0 || a.received.Sub(moment) < found) {
				found = a.received.Sub(moment)
			}
		}
		first = append(first, found)
	}
	return first
}

// richest is the worker that owns most slots.
func (s *strictSite) richest() (best int) {
	s.t.Helper()
	var slots map[string]int
	natstest.Eventually(s.t, readyWithin, "somebody owns slots", func() bool {
		slots = s.owned()
		return len(slots) == len(s.workers) && slots[s.workers[0].instance()]+slots[s.workers[1].instance()] > 0
	})
	for i, w := range s.workers {
		if slots[w.instance()] > slots[s.workers[best].instance()] {
			best = i
		}
	}
	return best
}

// testCleanStop stops and starts one worker after the other. No request for a strict tag
// waits longer than 250 ms, beside what requests for an ordinary tag wait on a busy machine.
func testCleanStop(t *testing.T, s *strictSite) {
	const within = 250 * time.Millisecond
	strict, ordinary := s.steadily(25, s.tags...), s.steadily(25, "ordinary")
	for range soak.Pick(1, 10) {
		for i, w := range s.workers {
			w.stop(syscall.SIGTERM)
			s.join(i)
		}
	}
	longest, noise := noneFailed(t, strict...), noneFailed(t, ordinary...)
	t.Logf("the longest request for a strict tag took %v, for an ordinary one %v", longest.Round(time.Millisecond), noise.Round(time.Millisecond))
	if longest > within+noise {
		t.Errorf("a request for a strict tag took %v, want %v at most, and %v for the machine", longest, within, noise)
	}
}

// TestStrictSlotsAreShared has all 256 slots in use, and one more worker join. Within two lease times
// each has 64 of them, two more or less.
func TestStrictSlotsAreShared(t *testing.T) {
	t.Parallel()
	s := startStrictWorkers(t, 3)
	must(t, "tag", "create", "--server", s.urls[0], "slot.*", "--template", "--order", "strict", "--step", "10")
	s.served(oneTagPerSlot("slot.")...)
	even := func(each int) func() bool {
		return func() bool {
			slots := s.owned()
			for _, n := range slots {
				if n < each-2 || n > each+2 {
					return false
				}
			}
			return len(slots) == len(s.workers)
		}
	}
	natstest.Eventually(t, time.Minute, "three workers have 85 slots each", even(85))
	s.workers = append(s.workers, nil)
	s.join(3)
	joined := time.Now()
	natstest.Eventually(t, time.Minute, "four workers have 64 slots each", even(64))
	took := time.Since(joined)
	t.Logf("after %v: %v", took.Round(time.Millisecond), s.owned())
	if most := 2 * ownership.DefaultLeaseTime; took > most {
		t.Errorf("the slots are shared evenly %v after a worker joined, want %v at most", took, most)
	}
}

// oneTagPerSlot are names of which each has a slot of its own.
func oneTagPerSlot(prefix string) (tags []string) {
	taken := make(map[int]bool)
	for i := 0; len(tags) < ownership.Slots; i++ {
		tag := fmt.Sprint(prefix, i)
		if slot := ownership.Slot(tag); !taken[slot] {
			taken[slot] = true
			tags = append(tags, tag)
		}
	}
	return tags
}
