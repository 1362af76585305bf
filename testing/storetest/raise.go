package storetest

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/testing/tier"
)

// raise raises a tag or ends the test.
func raise(t *testing.T, s Store, name string, next int64) {
	t.Helper()
	if err := s.Raise(patient(t), name, next); err != nil {
		t.Fatalf("Raise(%s, %d): %v", name, next, err)
	}
}

func testRaise(t *testing.T, open func() Store) {
	s, other := open(), open()
	create(t, s, "order", 10, 1)
	create(t, s, "Order", 7, 3)
	for _, step := range []struct{ to, want int64 }{{500, 500}, {500, 500}, {499, 500}, {1, 500}, {501, 501}} {
		raise(t, other, "order", step.to)
		expect(t, s, "order", 10, step.want)
	}
	if seg := reserve(t, s, "order", 5); seg != (store.Segment{First: 501, End: 506}) {
		t.Errorf("after Raise to 501 got %v, want [501, 506)", seg)
	}
	raise(t, other, "order", 501)
	expect(t, s, "order", 10, 506)
	expect(t, s, "Order", 7, 3)
}

func testRaiseErrors(t *testing.T, open func() Store) {
	s := open()
	create(t, s, "order", 10, 5)
	for _, next := range []int64{0, -1, math.MinInt64} {
		if err := s.Raise(patient(t), "order", next); !errors.Is(err, store.ErrBadTag) {
			t.Errorf("Raise to %d: %v, want ErrBadTag", next, err)
		}
	}
	for _, name := range []string{"", "*", "a b", "order."} {
		if err := s.Raise(patient(t), name, 10); !errors.Is(err, store.ErrBadTag) {
			t.Errorf("Raise of %q: %v, want ErrBadTag", name, err)
		}
	}
	for _, next := range []int64{1, 5, math.MaxInt64} {
		if err := s.Raise(patient(t), "missing", next); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("Raise of a missing tag to %d: %v, want ErrNoTag", next, err)
		}
	}
	expect(t, s, "order", 10, 5)
	if n := len(tags(t, s)); n != 1 {
		t.Errorf("Raise left %d tags, want 1", n)
	}
}

// At the end of the numbers, nothing wraps around or is rounded.
func testRaiseToTheEnd(t *testing.T, open func() Store) {
	s := open()
	create(t, s, "order", 10, 1)
	const near = math.MaxInt64 - 3
	raise(t, s, "order", near)
	expect(t, s, "order", 10, near)
	if seg := reserve(t, s, "order", 2); seg != (store.Segment{First: near, End: near + 2}) {
		t.Errorf("got %v, want 2 IDs from %d", seg, int64(near))
	}
	raise(t, s, "order", math.MaxInt64)
	raise(t, s, "order", near)
	expect(t, s, "order", 10, math.MaxInt64)
	if seg, err := Reserve(patient(t), s, "order", 1); !errors.Is(err, store.ErrExhausted) {
		t.Errorf("Reserve after Raise to the last number: %v, %v, want ErrExhausted", seg, err)
	}
}

// While some callers raise and others reserve, no two get the same range, and
// each Reserve that starts after a Raise has returned gets a segment above it.
func testRaiseAgainstReserve(t *testing.T, open func() Store) {
	const handles = 3
	each := tier.Pick(20, 100)
	admin := open()
	create(t, admin, "order", 10, 1)
	var ledger order.Ledger
	var wg sync.WaitGroup
	for g := range handles {
		reserving, raising := open(), open()
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 11))
			for range each {
				take(t, reserving, &ledger, "order", 1+random.Int64N(maxStep))
			}
		})
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 12))
			for range each {
				// Around where the counter is: some of these come too late.
				to := max(1, ledger.End("order")+random.Int64N(2*maxStep)-maxStep)
				if err := raising.Raise(patient(t), "order", to); err != nil {
					t.Errorf("Raise: %v", err)
					return
				}
				if seg, ok := take(t, raising, &ledger, "order", 10); ok && seg.First < to {
					t.Errorf("got %v after Raise to %d", seg, to)
				}
			}
		})
	}
	wg.Wait()
	ledger.Check(t)
	if ledger.Len() != 2*handles*each {
		t.Errorf("%d segments, want %d", ledger.Len(), 2*handles*each)
	}
	raise(t, admin, "order", ledger.End("order")) // the last Raise may have come after all
	if seg := reserve(t, admin, "order", 1); seg.First < ledger.End("order") {
		t.Errorf("DUPLICATE: %v lies below %d", seg, ledger.End("order"))
	}
}
