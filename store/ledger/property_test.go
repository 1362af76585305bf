package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/tier"
)

// Several loaders reserve from stores that go back at will, and of which there are several.
// Reads of the ledger are as old as can be, and answers are lost, come late, or are those of a
// write that was sent twice. What is granted is disjoint, and ascends in the order in which the
// ledger was written.
func TestRangesAreDisjointAndAscend(t *testing.T) {
	seeds, total := tier.Pick(1000, 50_000), 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, uint64(seed))
			w.run()
			w.check()
			total += len(w.granted)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if most := seeds * worldLoaders * worldCalls; total < most/4 {
		t.Errorf("%d ranges were granted of %d, want more, so that this says something", total, most)
	}
}

const (
	worldTag     = "order"
	worldLoaders = 3
	worldCalls   = 6 // of Reserve, for each loader
)

// world is a model of stores and a ledger. What loaders do with them happens one at a time, in
// an order that chance decides.
type world struct {
	t      *testing.T
	random *rand.Rand

	mu      sync.Mutex
	waiting []action

	// Used by one action at a time.
	stores  []int64             // what each copy of the store would return next
	history []mark              // the ledger: every mark it ever had; the last is the current one
	written []written           // in the order of the ledger
	granted []grant             // in the order of Reserve's return
	first   [worldLoaders]int64 // of the latest range that the loader got from a store
	late    []func()            // writes that are still under way, though nobody waits
	loaders []*Store
}

type action struct {
	do   func()
	done chan struct{}
}

type written struct {
	loader int
	end    int64
}

type grant struct {
	loader int
	seg    store.Segment
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 10)), stores: []int64{1, 1}, history: []mark{{}}}
	for i := range worldLoaders {
		w.loaders = append(w.loaders, newStore(modelStore{w: w, loader: i}, modelBook{w, i}, nil, Config{Log: zap.NewNop()}))
	}
	return w
}

// run lets all loaders make their calls.
func (w *world) run() {
	var group sync.WaitGroup
	for i, s := range w.loaders {
		group.Go(func() {
			for range worldCalls {
				seg, err := s.Reserve(w.t.Context(), worldTag, int64(1+i))
				if err == nil {
					w.act(func() { w.grant(grant{i, seg}) })
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { group.Wait(); close(ended) }()
	for {
		synctest.Wait()
		select {
		case <-ended:
			return
		default:
		}
		if !w.step() {
			time.Sleep(time.Millisecond) // somebody pauses
		}
	}
}

// step lets chance choose what happens next. It reports whether anything could.
func (w *world) step() bool {
	w.mu.Lock()
	n := len(w.waiting)
	if n == 0 {
		w.mu.Unlock()
		return false
	}
	switch {
	case w.chance(8): // a store goes back
		copied := w.random.IntN(len(w.stores))
		w.stores[copied] = 1 + w.random.Int64N(w.stores[copied])
	case w.chance(6): // a watch tells somebody of a mark, maybe an old one
		m := w.history[w.random.IntN(len(w.history))]
		w.loaders[w.random.IntN(worldLoaders)].overhear(store.Mark{Tag: worldTag, End: m.high, Revision: m.revision})
	case len(w.late) > 0 && w.chance(3):
		i := w.random.IntN(len(w.late))
		do := w.late[i]
		w.late = append(w.late[:i], w.late[i+1:]...)
		do()
	}
	i := w.random.IntN(n)
	a := w.waiting[i]
	w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
	w.mu.Unlock()
	a.do()
	close(a.done)
	return true
}

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.random.IntN(n) == 0 }

// act waits for its turn.
func (w *world) act(do func()) {
	a := action{do, make(chan struct{})}
	w.mu.Lock()
	w.waiting = append(w.waiting, a)
	w.mu.Unlock()
	<-a.done
}

// grant records a grant, which must have been written.
func (w *world) grant(g grant) {
	for _, other := range w.granted {
		if g.seg.First < other.seg.End && other.seg.First < g.seg.End {
			w.t.Errorf("DUPLICATE: loader %d was granted %v, loader %d %v", g.loader, g.seg, other.loader, other.seg)
		}
	}
	for _, one := range w.written {
		if one == (written{g.loader, g.seg.End}) {
			w.granted = append(w.granted, g)
			return
		}
	}
	w.t.Errorf("loader %d was granted %v, which is not in the ledger", g.loader, g.seg)
}

// check compares what was granted with the order of the ledger.
func (w *world) check() {
	last := int64(0)
	for _, one := range w.written {
		for _, g := range w.granted {
			if (written{g.loader, g.seg.End}) != one {
				continue
			}
			if g.seg.First < last {
				w.t.Errorf("%v was granted by a write after one up to %d", g.seg, last)
			}
			last = g.seg.End
		}
	}
}

// write is the compare-and-set as it arrives.
func (w *world) write(loader int, first, high int64, revision uint64) (uint64, error) {
	now := w.history[len(w.history)-1]
	if revision != now.revision {
		return 0, errStale
	}
	if first < now.high {
		w.t.Errorf("loader %d moved the ledger from %d to %d for a range from %d on", loader, now.high, high, first)
	}
	w.history = append(w.history, mark{high, now.revision + 1})
	w.written = append(w.written, written{loader, high})
	return now.revision + 1, nil
}

var errNoAnswer = errors.New("no answer")

// modelStore is one loader's way to the stores.
type modelStore struct {
	store.Store // none
	w           *world
	loader      int
}

func (s modelStore) Reserve(_ context.Context, _ string, step int64) (seg store.Segment, err error) {
	s.w.act(func() {
		w := s.w
		copied := w.random.IntN(len(w.stores))
		if w.chance(20) {
			err = errNoAnswer
			return
		}
		seg = store.Segment{First: w.stores[copied], End: w.stores[copied] + step}
		w.stores[copied] = seg.End
		w.first[s.loader] = seg.First
		if w.chance(20) {
			seg, err = store.Segment{}, errNoAnswer
		}
	})
	return seg, err
}

func (s modelStore) Raise(_ context.Context, _ string, next int64) (err error) {
	s.w.act(func() {
		w := s.w
		copied := w.random.IntN(len(w.stores))
		if w.chance(5) {
			err = errNoAnswer
			return
		}
		w.stores[copied] = max(w.stores[copied], next)
	})
	return err
}

// modelBook is one loader's way to the ledger.
type modelBook struct {
	w      *world
	loader int
}

func (b modelBook) read(context.Context, string) (m mark, err error) {
	b.w.act(func() {
		switch {
		case b.w.chance(20):
			err = errNoAnswer
		case b.w.chance(3): // an old one
			m = b.w.history[b.w.random.IntN(len(b.w.history))]
		default:
			m = b.w.history[len(b.w.history)-1]
		}
	})
	return m, err
}

func (modelBook) servers(context.Context, string) (own, last string) { return "", "" }

func (b modelBook) write(_ context.Context, _ string, high int64, revision uint64) (written uint64, err error) {
	b.w.act(func() {
		w, first := b.w, b.w.first[b.loader]
		arrive := func() (uint64, error) { return w.write(b.loader, first, high, revision) }
		switch {
		case w.chance(10): // it never arrives
			err = errNoAnswer
		case w.chance(8): // it arrives, and the answer is lost
			_, _ = arrive()
			err = errNoAnswer
		case w.chance(8): // it arrives later
			w.late = append(w.late, func() { _, _ = arrive() })
			err = errNoAnswer
		case w.chance(10): // it arrives twice, and the second answer is the one that is seen
			_, _ = arrive()
			written, err = arrive()
		default:
			written, err = arrive()
		}
	})
	return written, err
}
