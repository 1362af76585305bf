package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// TestTwoHistories: the register is put back under load, and the loader that
// remembers what was lost is killed. A new loader has no witness, so it grants
// once more what workers hold already, until the operator raises all tags. From
// the moment at which the command has succeeded, no worker hands out an ID of
// either history, and every tag is served.
//
// The new loader serves a worker that was not there before, so two workers hold
// the same IDs of each tag when the command is run.
func TestTwoHistories(t *testing.T) {
	t.Parallel()
	s := startHistorySite(t)
	backup := filepath.Join(t.TempDir(), "backup")
	s.copyData(t, backup, s.data)
	first := s.startWorkers(t, 2)
	s.heldByAll(t, first)
	moreGrants(t, s.js)
	s.copyData(t, s.data, backup)
	natstest.Eventually(t, "the loader grants nothing any more", func() bool {
		return s.loader.says("register regressed; granting stopped") > 0
	})
	s.loader.kill()

	s.loader = startWorker(t, s.net.URL(), "--role", "loader")
	s.heldByAll(t, append(first, s.startWorkers(t, 1)...))
	moreGrants(t, s.js)
	if s.before.repeated(t) == 0 {
		t.Fatal("no ID came twice before the raise, so the register has one history")
	}

	floor := raiseAll(t, "--server", s.net.URL())
	s.raised.Store(true)
	for _, tag := range s.tags {
		s.served(t, tag)
	}
	s.finish()
	s.check(t, floor)
}

// TestRaiseNamesLostTags: a snapshot of a running server lacks the entries that
// were written while it was taken, which are those of the busiest tags, and an
// old copy lacks the tags that were made after it. Nobody puts such a tag back
// if the loaders have forgotten it: its requests end with "no such tag", for
// good, although the raise has succeeded. As long as a worker holds the tag, the
// command names it.
func TestRaiseNamesLostTags(t *testing.T) {
	t.Parallel()
	s := &historySite{}
	s.start(t)
	must(t, "tag", "create", "--server", s.net.URL(), "kept")
	backup := filepath.Join(t.TempDir(), "backup")
	s.copyData(t, backup, s.data)
	startWorker(t, s.net.URL(), "--role", "worker")
	createTag(t, s.net.URL(), "lost.trend")
	createTag(t, s.net.URL(), "lost.strict", "--order", "strict")
	s.loader.kill()
	s.copyData(t, s.data, backup)

	said := settings{}.succeeds(t, "tag", "raise", "--all", "--yes", "--server", s.net.URL())
	for _, tag := range []string{"lost.trend", "lost.strict"} {
		if !strings.Contains(said.stdout+said.stderr, tag) {
			t.Errorf("the command does not name tag %s, which a worker holds and the register lacks:\n%s%s", tag, said.stdout, said.stderr)
		}
	}
}

// historySite is a NATS server with a loader and workers, under the load of hot
// tags. Cold tags are used by the test alone, so their buffers last.
type historySite struct {
	registerSite

	loader  *process
	hot     []string
	tags    []string // hot and cold
	raised  atomic.Bool
	stopped atomic.Bool
	wg      sync.WaitGroup

	before, after answers
}

// answers are the answers to requests that were sent before the raise had
// succeeded, or after it.
type answers struct {
	sync.Mutex
	all []answered
}

// answered is what a request got.
type answered struct {
	tag    string
	ranges []messages.Range
}

func startHistorySite(t *testing.T) *historySite {
	t.Helper()
	s := &historySite{hot: []string{"hot.1", "hot.2", "hot.3"}}
	s.start(t)
	s.tags = append(slices.Clone(s.hot), "cold.1", "cold.2")
	for _, tag := range s.tags {
		must(t, "tag", "create", "--server", s.net.URL(), tag, "--step", "5000")
	}
	t.Cleanup(s.finish)
	for _, tag := range s.hot {
		for range 2 {
			client := dial(t, s.net.URL(), nats.MaxReconnects(-1)) // the server will be away
			s.wg.Go(func() {
				for !s.stopped.Load() {
					s.request(client, tag, 10)
				}
			})
		}
	}
	return s
}

// start starts the server and the loader, which has no witness.
func (s *historySite) start(t *testing.T) {
	t.Helper()
	s.data = t.TempDir()
	s.net = natstest.Start(t, func(o *server.Options) { o.StoreDir = s.data })
	s.js = natstest.JetStream(t, s.net.Connect(t))
	s.loader = startWorker(t, s.net.URL(), "--role", "loader")
}

// startWorkers starts workers, and returns their instances.
func (s *historySite) startWorkers(t *testing.T, n int) (instances []string) {
	t.Helper()
	for range n {
		instances = append(instances, startWorker(t, s.net.URL(), "--role", "worker", "--wait", "500ms").instance())
	}
	return instances
}

// request asks once for so many IDs, and records the answer.
func (s *historySite) request(client requester, tag string, n int64) bool {
	to := &s.before
	if s.raised.Load() { // before the request is sent
		to = &s.after
	}
	ctx, cancel := context.WithTimeout(context.Background(), askAgain)
	defer cancel()
	ranges, err := client.NextN(ctx, tag, n)
	if err != nil {
		return false // the server or the loader is away
	}
	to.Lock()
	defer to.Unlock()
	to.all = append(to.all, answered{tag, ranges})
	return true
}

// heldByAll waits until these workers have IDs of all tags in memory.
func (s *historySite) heldByAll(t *testing.T, instances []string) {
	t.Helper()
	client := dial(t, s.net.URL())
	for _, tag := range s.tags {
		natstest.Eventually(t, "all workers have IDs of tag "+tag, func() bool {
			for range 4 * len(instances) {
				s.request(client, tag, 1)
			}
			all := askStats(t, client.conn, len(instances))
			return !slices.ContainsFunc(instances, func(i string) bool { return !gives(all[i], tag) })
		})
	}
}

// served waits until a tag is served again: so often in a row that each worker
// has most probably answered.
func (s *historySite) served(t *testing.T, tag string) {
	t.Helper()
	const inARow = 50
	client, n := dial(t, s.net.URL()), 0
	natstest.Eventually(t, fmt.Sprintf("tag %s is served %d times in a row", tag, inARow), func() bool {
		if n++; !s.request(client, tag, 1) {
			n = 0
		}
		return n >= inARow
	})
}

// finish stops the callers, and waits for their last answers.
func (s *historySite) finish() {
	s.stopped.Store(true)
	s.wg.Wait()
}

// ledger returns a ledger of the answers.
func (a *answers) ledger() *ledger {
	a.Lock()
	defer a.Unlock()
	l := new(ledger)
	for _, of := range a.all {
		l.tag = of.tag
		l.add(of.ranges)
	}
	return l
}

// repeated is how many answers had an ID of an earlier one.
func (a *answers) repeated(t *testing.T) (n int) {
	t.Helper()
	a.Lock()
	defer a.Unlock()
	ends := make(map[string][]messages.Range)
	for _, of := range a.all {
		ends[of.tag] = append(ends[of.tag], of.ranges...)
	}
	for _, all := range ends {
		slices.SortFunc(all, func(x, y messages.Range) int { return int(x.First - y.First) })
		for i, r := range all[1:] {
			if r.First <= all[i].Last {
				n++
			}
		}
	}
	return n
}

// check fails the test for an ID that was handed out after the raise, and is
// from before it: whether it had been handed out before, or only granted. IDs
// that came twice before the raise are what the raise is for.
func (s *historySite) check(t *testing.T, floor int64) {
	t.Helper()
	all := s.before.ledger()
	all.Forgive()
	old := make(map[string]int)
	for _, of := range s.after.all {
		all.tag = of.tag
		all.add(of.ranges)
		if of.ranges[0].First < floor {
			old[of.tag]++
		}
	}
	all.check(t)
	for _, tag := range s.tags {
		if n := old[tag]; n > 0 {
			t.Errorf("%d answers after the raise had IDs of tag %s from before it", n, tag)
		}
	}
}
