package store_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/store"
)

// TestSizeOfAWant: a strict tag gets the IDs that requests wait for, others the
// step or more, and none more than the load may get.
func TestSizeOfAWant(t *testing.T) {
	for _, c := range []struct {
		step, waiting int64
		order         store.Order
		size          int64
	}{
		{1000, 0, store.Trend, 1000},
		{1000, 999, store.Trend, 1000},
		{1000, 5000, store.Trend, 5000},
		{0, 1, store.Trend, 70},
		{0, 71, store.Trend, 71},
		{0, 3, store.Strict, 3},
		{1000, 0, store.Strict, 1},
		{1000, 8000, store.Trend, 6000},
		{8000, 1, store.Trend, 6000},
		{0, 8000, store.Strict, 6000},
	} {
		w := store.Want{Step: c.step, Waiting: c.waiting, Most: 6000}
		if got := w.Size(c.order, 70); got != c.size {
			t.Errorf("%+v of a %s tag: %d, want %d", w, c.order, got, c.size)
		}
	}
	if got := (store.Want{Most: 50}).Size(store.Trend, 70); got != 50 {
		t.Errorf("a configured step above the most that a load may get: %d, want 50", got)
	}
}

// TestDivide: parts adjoin and have their wants' sizes. Of a trend tag that has
// fewer, only the last is shorter. A strict tag gets all or nothing.
func TestDivide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free := store.Segment{First: rapid.Int64Range(1, 100).Draw(t, "first")}
		free.End = free.First + rapid.Int64Range(0, 60).Draw(t, "free")
		if rapid.Bool().Draw(t, "at the end") {
			free.First, free.End = math.MaxInt64-free.Len(), math.MaxInt64
		}
		order := rapid.SampledFrom([]store.Order{store.Trend, store.Strict}).Draw(t, "order")
		small := rapid.Int64Range(0, 20)
		wants := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) store.Want {
			most := rapid.OneOf(rapid.Int64Range(1, 20), rapid.Just(int64(math.MaxInt64))).Draw(t, "most")
			return store.Want{Step: small.Draw(t, "step"), Waiting: small.Draw(t, "waiting"), Most: most}
		}), 1, 5).Draw(t, "wants")

		r, err := free.Divide(order, 10, wants)
		total := store.Total(wants, order, 10)
		if r.Order != order || r.Step != 10 {
			t.Fatalf("%+v, want order %s, step 10", r, order)
		}
		if free.Len() == 0 || order == store.Strict && free.Len() < total {
			if !errors.Is(err, store.ErrExhausted) || len(r.Parts) > 0 {
				t.Fatalf("%d of %v: %+v, %v, want ErrExhausted", total, free, r, err)
			}
			return
		}
		if err != nil || len(r.Parts) > len(wants) || r.End() != free.First+min(total, free.Len()) {
			t.Fatalf("%d of %v: %+v, %v", total, free, r, err)
		}
		next := free.First
		for i, part := range r.Parts {
			if !part.Valid() || part.First != next || part.Len() != min(wants[i].Size(order, 10), free.End-next) {
				t.Fatalf("part %d of %+v for %+v is %v", i, r, wants, part)
			}
			next = part.End
		}
	})
}

// TestTotal: a sum beyond the numbers does not wrap around.
func TestTotal(t *testing.T) {
	wants := slices.Repeat([]store.Want{{Waiting: math.MaxInt64 / 2, Most: math.MaxInt64}}, 3)
	if n := store.Total(wants, store.Strict, 1); n != math.MaxInt64 {
		t.Errorf("%d", n)
	}
}
