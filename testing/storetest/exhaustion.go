package storetest

import (
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/idworker/idworker/store"
)

func testExhaustion(t *testing.T, open func() store.Store) {
	s := open()
	const next = math.MaxInt64 - 1500
	create(t, s, "order", 1000, next)

	refused := func(step int64) {
		t.Helper()
		before := tags(t, s)["order"]
		if seg, err := s.Reserve(patient(t), "order", step); !errors.Is(err, store.ErrExhausted) {
			t.Errorf("Reserve of %d from %d on: %v, %v, want ErrExhausted", step, before.Next, seg, err)
		}
		if after := tags(t, s)["order"]; after != before {
			t.Errorf("the refused step %d changed %+v to %+v", step, before, after)
		}
	}
	granted := func(first, end int64) {
		t.Helper()
		want := store.Segment{First: first, End: end}
		if seg := reserve(t, s, "order", end-first); seg != want {
			t.Errorf("got %v, want %v", seg, want)
		}
	}

	refused(math.MaxInt64) // would wrap around twice over
	refused(1501)
	granted(next, next+1000)
	refused(1000)
	refused(501)
	granted(next+1000, math.MaxInt64) // the rest, to the last number
	refused(1)
	refused(math.MaxInt64)
	expect(t, s, "order", 1000, math.MaxInt64)
}

// At the end, exactly the segments that fit are handed out, and no more.
func testExhaustionConcurrent(t *testing.T, open func() store.Store) {
	const goroutines, each, fit = 4, 10, 25
	create(t, open(), "order", 10, math.MaxInt64-10*fit-5)
	var ledger Ledger
	var wg sync.WaitGroup
	for range goroutines {
		s := open()
		wg.Go(func() {
			for range each {
				seg, err := s.Reserve(patient(t), "order", 10)
				switch {
				case err == nil:
					ledger.Add("order", 10, seg.Segment)
				case !errors.Is(err, store.ErrExhausted):
					t.Errorf("Reserve: %v, want ErrExhausted", err)
				}
			}
		})
	}
	wg.Wait()
	ledger.Check(t)
	if _, burns := open().(MayBurn); burns && ledger.Len() > 0 && ledger.Len() <= fit {
		return
	}
	if ledger.Len() != fit {
		t.Errorf("%d segments were handed out, %d fit", ledger.Len(), fit)
	}
}

// MayBurn is a store that loses ranges when several callers race for them, as
// in front of a table.
type MayBurn interface{ MayBurn() }
