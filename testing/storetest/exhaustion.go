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
func testExhaustion(t *testing.T, open func() Store) {
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
func testExhaustionConcurrent(t *testing.T, open func() Store) {
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

// divide reserves for several wants of a tag, whose parts must have these
// sizes, adjoin each other, and begin at a number.
func divide(t *testing.T, s Store, name string, first int64, wants []store.Want, sizes ...int64) {
	t.Helper()
	granted, err := s.Reserve(patient(t), name, wants)
	if err != nil || len(granted.Parts) != len(sizes) {
		t.Fatalf("Reserve(%s, %+v): %+v, %v, want parts of %v IDs", name, wants, granted, err, sizes)
	}
	if granted.Step != 10 {
		t.Errorf("%+v, want a step of 10", granted)
	}
	for i, size := range sizes {
		if want := (store.Segment{First: first, End: first + size}); granted.Parts[i] != want {
			t.Errorf("part %d for %+v of %s is %v, want %v", i, wants[i], name, granted.Parts[i], want)
		}
		first += size
	}
}

// The loads of a call get a part each: of a trend tag the step at least, of a
// strict tag the IDs that requests wait for.
func testWants(t *testing.T, open func() Store) {
	s := open()
	createAs(t, open(), "trend", 5, store.Trend)
	createAs(t, open(), "strict", 5, store.Strict)
	wants := []store.Want{
		{Most: 1000},
		{Step: 40, Waiting: 3, Most: 1000},
		{Step: 40, Waiting: 50, Most: 1000},
		{Step: 4000, Waiting: 2, Most: 100},
		{Waiting: 300, Most: 200},
	}
	for round := range int64(2) {
		divide(t, s, "trend", 5+400*round, wants, 10, 40, 50, 100, 200)
		divide(t, s, "strict", 5+256*round, wants, 1, 3, 50, 2, 200)
	}
	expect(t, s, "trend", 10, 805)

	first := store.Tag{Name: "first", Step: 10, Next: 7, Order: store.Strict}
	granted, err := s.ReserveFirst(patient(t), first, wants[:2])
	if err != nil || len(granted.Parts) != 2 || granted.Parts[0] != (store.Segment{First: 7, End: 8}) || granted.Parts[1] != (store.Segment{First: 8, End: 11}) {
		t.Errorf("ReserveFirst of two loads: %+v, %v, want [7, 8) and [8, 11)", granted, err)
	}
	for _, bad := range [][]store.Want{nil, {{Step: 1}}, {{Step: 1, Most: 1}, {Step: 1}}, {{Step: -1, Most: 1}}, {{Waiting: -1, Most: 1}}} {
		if granted, err := s.Reserve(patient(t), "trend", bad); !errors.Is(err, store.ErrBadTag) {
			t.Errorf("Reserve of %+v: %+v, %v, want ErrBadTag", bad, granted, err)
		}
	}
	expect(t, s, "trend", 10, 805)
}

// The last numbers of a trend tag go to the first loads. Loads of a strict tag
// get all or nothing, and what does not fit together may fit alone.
func testLastWants(t *testing.T, open func() Store) {
	s := open()
	const next = math.MaxInt64 - 100
	createAs(t, open(), "trend", next, store.Trend)
	createAs(t, open(), "strict", next, store.Strict)
	three := []store.Want{{Step: 60, Waiting: 60, Most: 1000}, {Step: 60, Waiting: 60, Most: 1000}, {Step: 60, Waiting: 60, Most: 1000}}
	divide(t, s, "trend", next, three, 60, 40)

	before := tags(t, s)["strict"]
	for _, wants := range [][]store.Want{three, three[:2]} {
		granted, err := s.Reserve(patient(t), "strict", wants)
		if !errors.Is(err, store.ErrExhausted) || len(granted.Parts) > 0 || granted.Order != store.Strict {
			t.Errorf("%d loads of 60 IDs, of a strict tag with 100: %+v, %v, want ErrExhausted and its order", len(wants), granted, err)
		}
	}
	if after := tags(t, s)["strict"]; after != before {
		t.Errorf("what did not fit changed %+v to %+v", before, after)
	}
	divide(t, s, "strict", next, three[:1], 60)
	divide(t, s, "strict", next+60, []store.Want{{Waiting: 40, Most: 1000}}, 40)
	for _, tag := range []string{"trend", "strict"} {
		if granted, err := s.Reserve(patient(t), tag, three[:1]); !errors.Is(err, store.ErrExhausted) || len(granted.Parts) > 0 || granted.Order != store.Order(tag) {
			t.Errorf("Reserve of %s after its last number: %+v, %v, want ErrExhausted and its order", tag, granted, err)
		}
	}
}
