package storetest

import (
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/order"
)

// A strict tag gives all that a call wants or nothing, a trend tag what is left.
// Both end with their last number.
func testExhaustion(t *testing.T, open func() store.Store) {
	s := open()
	const next = math.MaxInt64 - 1500
	create(t, s, "order", 1000, next)
	if err := s.CreateTag(patient(t), store.Tag{Name: "strict", Step: 1000, Next: next, Order: store.Strict}); err != nil {
		t.Fatal(err)
	}
	refused := func(tag string, n int64) {
		t.Helper()
		before := tags(t, s)[tag]
		if seg, err := Reserve(patient(t), s, tag, n); !errors.Is(err, store.ErrExhausted) {
			t.Errorf("Reserve of %d from %d on: %v, %v, want ErrExhausted", n, before.Next, seg, err)
		}
		if after := tags(t, s)[tag]; after != before {
			t.Errorf("the refused %d changed %+v to %+v", n, before, after)
		}
	}
	granted := func(tag string, n, first, end int64) {
		t.Helper()
		want := store.Segment{First: first, End: end}
		if seg := reserve(t, s, tag, n); seg != want {
			t.Errorf("got %v, want %v", seg, want)
		}
	}

	refused("strict", math.MaxInt64) // would wrap around twice over
	refused("strict", 1501)
	granted("strict", 1000, next, next+1000)
	refused("strict", 1000)
	refused("strict", 501)
	granted("strict", 500, next+1000, math.MaxInt64) // the rest, to the last number
	granted("order", 1000, next, next+1000)
	granted("order", math.MaxInt64, next+1000, math.MaxInt64)
	for _, tag := range []string{"strict", "order"} {
		refused(tag, 1)
		refused(tag, math.MaxInt64)
		if got := tags(t, s)[tag].Next; got != math.MaxInt64 {
			t.Errorf("next of %s is %d at the end", tag, got)
		}
	}
}

// At the end, exactly the segments that fit are handed out and then the rest,
// and no more.
func testExhaustionConcurrent(t *testing.T, open func() store.Store) {
	const goroutines, each, fit = 4, 10, 25
	create(t, open(), "order", 10, math.MaxInt64-10*(fit-1)-5)
	var ledger order.Ledger
	var wg sync.WaitGroup
	for range goroutines {
		s := open()
		wg.Go(func() {
			for range each {
				seg, err := Reserve(patient(t), s, "order", 10)
				switch {
				case err == nil:
					ledger.AddSegment("order", seg.Len(), seg.Segment)
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
