package register

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register/internal/guard"
	"github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/testing/storetest"
	"github.com/idworker/idworker/testing/tier"
)

var tags = []string{"a", "b"}

// world is a register with several loaders, in virtual time.
type world struct {
	*testing.T
	server *fakeServer
	tables []*fakeTable // of the loaders that have a table
	seed   uint64

	granted order.Ledger
	mu      sync.Mutex
	highest map[string]int64 // end of the highest grant so far
	stores  []*Register
	ordered bool // ranges ascend: nothing regressed
	creates bool // tags come into being
}

// loader opens a register in a world.
func (w *world) loader(n int) *Register {
	cfg := Config{Prefix: prefix, Log: zap.NewNop()}
	if len(w.tables) > 0 {
		cfg.Table = w.tables[n%len(w.tables)]
	}
	s := newStore(cfg, w.server)
	for { // as a starting process does
		ctx, cancel := context.WithTimeout(w.Context(), pollTimeout)
		err := s.start(ctx)
		cancel()
		if err == nil {
			return s
		}
		if errors.Is(err, store.ErrRegressed) {
			w.Fatalf("seed %d: a loader without evidence: %v", w.seed, err)
		}
	}
}

// reserve reserves at random until ctx ends.
func (w *world) reserve(ctx context.Context, s *Register, random *rand.Rand) {
	for ctx.Err() == nil {
		tag, n := tags[random.IntN(len(tags))], 1+random.Int64N(20)
		if w.creates && random.IntN(4) == 0 {
			tag = fmt.Sprint("new.", w.granted.Len()/1000)
		}
		w.mu.Lock()
		before := w.highest[tag]
		w.mu.Unlock()
		call, cancel := context.WithTimeout(ctx, 3*time.Second)
		seg, err := storetest.Reserve(call, s, tag, n)
		if w.creates && errors.Is(err, store.ErrNoTag) {
			seg, err = storetest.ReserveFirst(call, s, store.Tag{Name: tag, Step: 10, Next: 1}, n)
		}
		cancel()
		if err != nil {
			time.Sleep(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
			continue
		}
		w.granted.AddSegment(tag, n, seg.Segment)
		w.mu.Lock()
		if w.ordered && seg.First < before {
			w.Errorf("seed %d: %s got %v after all below %d was granted", w.seed, tag, seg, before)
		}
		w.highest[tag] = max(w.highest[tag], seg.End)
		w.mu.Unlock()
	}
}

// run has loaders reserve until disturb returns, checks that no number was
// granted twice, and that each loader still grants.
func (w *world) run(loaders int, disturb func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var group sync.WaitGroup
	stores := make([]*Register, loaders)
	w.stores = stores
	for n := range loaders {
		stores[n] = w.loader(n)
		group.Go(func() { stores[n].Run(ctx, nil) })
		for g := range 2 {
			group.Go(func() { w.reserve(ctx, stores[n], rand.New(rand.NewPCG(w.seed, uint64(10*n+g)))) })
		}
	}
	disturb()
	for n, s := range stores {
		before := s.Figures().Granted
		for tries := 0; s.Figures().Granted == before; tries++ {
			if tries == 300 {
				w.Errorf("seed %d: loader %d grants nothing for five minutes: %v", w.seed, n, s.Stopped())
				break
			}
			time.Sleep(time.Second)
		}
	}
	cancel()
	group.Wait()
	w.granted.Check(w)
}

func newWorld(t *testing.T, seed uint64, tables int) *world {
	w := &world{T: t, server: newFakeServer(seed, 0.02), seed: seed, highest: make(map[string]int64), ordered: true}
	for n := range tables {
		w.tables = append(w.tables, newFakeTable(seed+uint64(n), 0.02, tags...))
	}
	for _, tag := range tags {
		w.server.now.Last++
		w.server.keys[tag] = storedEntry{entry{Next: 1, Step: 10}, w.server.now.Last}
	}
	w.server.now.Entries = uint64(len(tags))
	return w
}

// TestRanges: ranges are disjoint, and ascend, although messages are lost or
// late, rows regress, and two loaders have different tables.
func TestRanges(t *testing.T) {
	t.Parallel()
	for seed := range tier.Seeds(20, 1000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed, int(seed%3))
				w.run(1+int(seed%4), func() { time.Sleep(time.Minute) })
			})
		})
	}
}

// TestRegisterGoesBack: a register restored to an older state, with or without
// rows, stops every loader that has polled since. It serves again after a
// raise, and nothing is granted twice.
func TestRegisterGoesBack(t *testing.T) {
	t.Parallel()
	for seed := range tier.Seeds(40, 2000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed, int(seed%3))
				w.ordered, w.creates = false, true
				random := rand.New(rand.NewPCG(seed, 3))
				w.run(1+int(seed%3), func() {
					for by := int64(1e6); by < 1e16; by *= 1000 { // more than all before
						w.server.save()
						saved := time.Now()
						time.Sleep(10 * time.Second)
						// Polls get lost, and the rule is that each loader has
						// polled since.
						for _, s := range w.stores {
							for polled := false; !polled; {
								s.judge(func(g *guard.Guard) { polled = g.PolledSince(saved.Add(time.Second)) })
								time.Sleep(time.Millisecond)
							}
						}
						w.server.putBack(random.IntN(len(w.server.older)), 2*time.Second, random.IntN(2) == 0)
						time.Sleep(time.Duration(random.Int64N(int64(20 * time.Second))))
						w.server.decide(by, w.tables...)
						time.Sleep(10 * time.Second)
					}
				})
			})
		})
	}
}

// TestRowsOfLostTags: after a decision, the row of a tag that the register
// lacks begins at the lowest first ID of new tags: a tag of that name may have
// been lost.
func TestRowsOfLostTags(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 1)
		w.server.loss, w.tables[0].back = 0, 0
		s := w.loader(0)
		w.server.decide(1000, w.tables...)
		w.tables[0].rows["inserted"] = 1
		time.Sleep(2 * guard.PollEvery)
		if seg, err := storetest.Reserve(t.Context(), s, "inserted", 10); err != nil || seg.First != 1001 {
			t.Errorf("%v, %v, want IDs from 1001 on", seg, err)
		}
	})
}

// TestStopsInTime: no loader grants after the time that the rules allow.
func TestStopsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.ordered = false
		w.server.loss = 0
		var stopped atomic.Bool
		w.run(3, func() {
			w.server.save()
			time.Sleep(10 * time.Second)
			w.server.putBack(0, 2*time.Second, false)
			time.Sleep(guard.PollEvery + pollTimeout)
			before := w.granted.Len()
			time.Sleep(time.Minute)
			if n := w.granted.Len() - before; n > 0 {
				t.Errorf("%d ranges were granted later", n)
			}
			stopped.Store(true)
			w.server.decide(1_000_000)
		})
	})
}

// TestStaleAfterDecision: a loader's cache, and its first ID for new tags, are
// from before a decision that its next poll returns. It writes neither.
func TestStaleAfterDecision(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.server.loss = 0
		a, b := w.loader(0), w.loader(1)
		if _, err := storetest.Reserve(t.Context(), a, "a", 10); err != nil {
			t.Fatal(err)
		}
		w.server.save()
		// These are lost; the raise gives the entry of a the cached revision.
		for range 2 {
			if _, err := storetest.Reserve(t.Context(), a, "a", 10); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := storetest.ReserveFirst(t.Context(), b, store.Tag{Name: "new", Step: 10, Next: 1}, 10); err != nil {
			t.Fatal(err)
		}
		w.server.putBack(0, 0, false)
		w.server.decide(1000)
		time.Sleep(2 * guard.PollEvery)
		if seg, err := storetest.ReserveFirst(t.Context(), a, store.Tag{Name: "new", Step: 10, Next: 1}, 10); err != nil || seg.First < 1001 {
			t.Errorf("a tag that was lost: %v, %v", seg, err)
		}
		w.server.decide(1000)
		time.Sleep(2 * guard.PollEvery)
		for _, s := range []*Register{a, b, w.loader(2)} {
			if seg, err := storetest.Reserve(t.Context(), s, "a", 10); err != nil || seg.First < 1011 {
				t.Errorf("a tag that was cached: %v, %v", seg, err)
			}
		}
	})
}
