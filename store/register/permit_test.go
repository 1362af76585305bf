package register

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/storetest"
)

// heldServer holds writes until they are released, one each millisecond, in the
// order of their tags.
type heldServer struct {
	*fakeServer
	release chan struct{}
	lost    string // the tag whose answer does not arrive
}

const heldTags = 64

func heldTag(n int) string { return fmt.Sprintf("t%02d", n) }

func (s heldServer) update(_ context.Context, tag string, value []byte, revision uint64) (uint64, error) {
	<-s.release
	var place int
	if _, err := fmt.Sscanf(tag, "t%d", &place); err != nil {
		return 0, err
	}
	time.Sleep(time.Duration(place) * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	if tag == s.lost {
		return 0, errLost
	}
	return s.write(tag, value, revision)
}

// heldWorld has a loader with 64 tags, each of which it has reserved once, and
// whose further writes are held.
func heldWorld(t *testing.T) (w *world, held *Register, server *heldServer) {
	w = newWorld(t, 1, 0)
	w.server.loss, w.ordered = 0, false
	for n := range heldTags {
		w.server.now.Last++
		w.server.keys[heldTag(n)] = storedEntry{entry{Next: 1, Step: 10}, w.server.now.Last}
	}
	w.server.now.entries = uint64(len(w.server.keys))
	held = w.loader(0)
	for n := range heldTags {
		w.mustReserve(held, heldTag(n))
	}
	server = &heldServer{fakeServer: w.server, release: make(chan struct{})}
	held.remote = server
	return w, held, server
}

func (w *world) mustReserve(s *Register, tag string) {
	w.Helper()
	granted, err := storetest.Reserve(w.Context(), s, tag, 10)
	if err != nil {
		w.Fatal(err)
	}
	w.granted.AddSegment(tag, 10, granted.Segment)
}

// reserveAll reserves a range of each tag at once, and calls then once all
// writes are sent. It returns the number of ranges granted.
func (w *world) reserveAll(s *Register, server *heldServer, then func()) int {
	before := w.granted.Len()
	var group sync.WaitGroup
	for n := range heldTags {
		group.Go(func() {
			if granted, err := storetest.Reserve(w.Context(), s, heldTag(n), 10); err == nil {
				w.granted.AddSegment(heldTag(n), 10, granted.Segment)
			}
		})
	}
	synctest.Wait()
	then()
	close(server.release)
	group.Wait()
	return w.granted.Len() - before
}

// TestInFlightOverRestore: a loader has 64 writes in flight when a restore ends.
// The first lift the sequence, so that the later answers lie above all that was
// seen. Those ranges are discarded too: other loaders had been granted them.
func TestInFlightOverRestore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, held, server := heldWorld(t)
		other := w.loader(1)
		w.server.save()
		for n := heldTags - 8; n < heldTags; n++ {
			w.mustReserve(other, heldTag(n)) // lost
		}
		if err := held.poll(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		n := w.reserveAll(held, server, func() { w.server.putBack(0, pollEvery, false) })
		if n > 0 || held.Stopped() == nil {
			t.Errorf("%d ranges granted, stopped: %v", n, held.Stopped())
		}
		w.granted.Check(t)
	})
}

// TestUnknownOutcomeAmongOthers: a write whose answer is lost discards its own
// range only.
func TestUnknownOutcomeAmongOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, held, server := heldWorld(t)
		server.lost = heldTag(0)
		if n := w.reserveAll(held, server, func() {}); n != heldTags-1 {
			t.Errorf("%d ranges granted, want %d", n, heldTags-1)
		}
	})
}

// TestAnswerOfBeforeADecision: an answer that is below what was seen before a
// decision proves nothing after it.
func TestAnswerOfBeforeADecision(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, held, server := heldWorld(t)
		w.server.save()
		for n := range heldTags {
			w.mustReserve(w.loader(1), heldTag(n)) // lost
		}
		if err := held.poll(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		n := w.reserveAll(held, server, func() {
			w.server.putBack(0, 0, false)
			w.server.mu.Lock()
			for tag := range w.server.keys {
				r := w.server.keys[tag]
				r.Next += 1000
				w.server.keys[tag] = r
			}
			w.server.now.decisions, w.server.now.first = []string{"decided"}, 1001
			w.server.mu.Unlock()
			if err := held.poll(t.Context(), true); err != nil {
				t.Error(err)
			}
		})
		if n > 0 || held.Stopped() != nil {
			t.Errorf("%d ranges granted, stopped: %v", n, held.Stopped())
		}
	})
}

// listServer calls listed after it has replied with all entries.
type listServer struct {
	*fakeServer
	listed func()
}

func (s listServer) each(ctx context.Context, visit func(tag string, e listed, written time.Time) bool) error {
	err := s.fakeServer.each(ctx, visit)
	s.listed()
	return err
}

// lostTag opens a loader that was granted IDs of a tag, which the register then
// loses.
func lostTag(t *testing.T) (w *world, s *Register, tag store.Tag) {
	w = newWorld(t, 1, 0)
	w.server.loss, w.ordered = 0, false
	w.server.save()
	s, tag = w.loader(0), store.Tag{Name: "lost", Step: 10, Next: 1}
	w.mustCreate(s, tag)
	w.server.putBack(0, 0, false)
	return w, s, tag
}

func (w *world) mustCreate(s *Register, tag store.Tag) {
	w.Helper()
	granted, err := storetest.ReserveFirst(w.Context(), s, tag, 10)
	if err != nil {
		w.Fatal(err)
	}
	w.granted.AddSegment(tag.Name, 10, granted.Segment)
}

// TestPausedInAcceptance: a loader is paused while it accepts a decision. The
// register is restored and raised again. The loader does not put back a tag
// under the first decision: another loader was granted those IDs.
func TestPausedInAcceptance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, s, tag := lostTag(t)
		w.server.decide(1000)
		var once sync.Once
		s.remote = listServer{w.server, func() {
			once.Do(func() {
				w.mustCreate(w.loader(1), tag) // lost, too
				w.server.putBack(0, 0, false)
				w.server.decide(2000)
			})
		}}
		if err := s.poll(t.Context(), true); !errors.Is(err, errChanged) {
			t.Errorf("after a second restore: %v", err)
		}
		if err := s.poll(t.Context(), true); err != nil {
			t.Errorf("the second decision: %v", err)
		}
		w.mustReserve(w.loader(2), tag.Name)
		w.granted.Check(t)
	})
}

// TestMarkedInAcceptance: a raise begins while a loader accepts a decision. The
// loader writes nothing under the mark.
func TestMarkedInAcceptance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, s, tag := lostTag(t)
		w.server.decide(1000)
		s.remote = listServer{w.server, func() { w.server.now.raising = true }}
		err := s.poll(t.Context(), true)
		if _, written := w.server.keys[tag.Name]; !errors.Is(err, errChanged) || written {
			t.Errorf("written under a mark: %v, %v", written, err)
		}
	})
}

// TestLateAnswerInAcceptance: a decision is not accepted if an entry that was
// put back may have arrived after another restore and raise.
func TestLateAnswerInAcceptance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, s, _ := lostTag(t)
		w.server.decide(1000)
		s.remote = lateServer{w.server}
		if err := s.poll(t.Context(), true); !errors.Is(err, errLate) {
			t.Errorf("a late answer: %v", err)
		}
		if err := s.poll(t.Context(), true); err != nil {
			t.Errorf("the next poll: %v", err)
		}
	})
}

// TestProofDuringComparison: a proof that is found while a loader compares its
// entries outlasts the comparison, and so does one that is found while a
// decision is accepted.
func TestProofDuringComparison(t *testing.T) {
	t.Parallel()
	for name, decided := range map[string]bool{"no decision": false, "a decision": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, 0)
				w.server.loss = 0
				s := w.loader(0)
				w.mustReserve(s, "a")
				w.server.now.raising = true
				if err := s.poll(t.Context(), true); !errors.Is(err, store.ErrRegressed) {
					t.Fatal(err)
				}
				w.server.now.raising = false
				if decided {
					w.server.decide(1000)
				}
				s.remote = listServer{w.server, func() {
					w.server.mu.Lock()
					r := w.server.keys["a"]
					r.Next = 1
					w.server.keys["a"] = r
					w.server.mu.Unlock()
					if _, err := s.read(t.Context(), "a"); !errors.Is(err, store.ErrRegressed) {
						t.Errorf("an entry below the cached one: %v", err)
					}
				}}
				if err := s.poll(t.Context(), true); err == nil || s.Stopped() == nil {
					t.Errorf("resumed after a proof: %v", err)
				}
			})
		})
	}
}

// TestSuspend: the time in suspend counts. After it a loader polls before it
// writes, although the monotonic clock stood still.
func TestSuspend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.server.loss = 0
		s := w.loader(0)
		var asleep time.Duration
		s.now = func() time.Time { return time.Now().Add(asleep) }
		w.mustReserve(s, "a")
		w.server.now.ID = "another"
		asleep = time.Hour
		before := w.server.now.Last
		if seg, err := storetest.Reserve(t.Context(), s, "a", 10); !errors.Is(err, store.ErrRegressed) || w.server.now.Last != before {
			t.Errorf("granted %v, %v; the register is at %d, and was at %d", seg, err, w.server.now.Last, before)
		}
	})
}

// TestSuspendBeforeAnswer: a machine sleeps while a write is in flight. Its
// answer is late.
func TestSuspendBeforeAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, held, server := heldWorld(t)
		var asleep time.Duration
		held.now = func() time.Time { return time.Now().Add(asleep) }
		if n := w.reserveAll(held, server, func() { asleep = time.Hour }); n > 0 {
			t.Errorf("%d ranges granted", n)
		}
	})
}

// TestHighestFloor: once new tags begin at the highest number, further decisions
// cannot raise that, and are accepted.
func TestHighestFloor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.server.loss = 0
		s := w.loader(0)
		for _, decision := range []string{"one", "two"} {
			w.server.now.decisions, w.server.now.first = append(w.server.now.decisions, decision), math.MaxInt64
			if err := s.poll(t.Context(), true); err != nil {
				t.Errorf("decision %s: %v", decision, err)
			}
			again := newStore(Config{Prefix: prefix, Log: zap.NewNop()}, w.server)
			again.record = record{Position: kv.Position{ID: "made"}, First: math.MaxInt64}
			if err := again.start(t.Context()); err != nil {
				t.Errorf("a start after decision %s: %v", decision, err)
			}
		}
	})
}
