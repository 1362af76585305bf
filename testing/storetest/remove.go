package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/order"
)

// remove removes a tag or ends the test.
func remove(t *testing.T, s Store, name string) {
	t.Helper()
	if err := s.RemoveTag(patient(t), name); err != nil {
		t.Fatalf("RemoveTag(%s): %v", name, err)
	}
}

// gone checks that every call treats a tag as nonexistent.
func gone(t *testing.T, s Store, name string) {
	t.Helper()
	_, reserved := Reserve(patient(t), s, name, 10)
	_, found := s.Lookup(patient(t), name) // after Reserve: until then it may be cached
	for call, err := range map[string]error{
		"Reserve":   reserved,
		"Lookup":    found,
		"SetStep":   s.SetStep(patient(t), name, 10),
		"Raise":     s.Raise(patient(t), name, 1),
		"Raise up":  s.Raise(patient(t), name, 1<<40),
		"RemoveTag": s.RemoveTag(patient(t), name),
	} {
		if !errors.Is(err, store.ErrNoTag) {
			t.Errorf("%s of a removed tag: %v, want ErrNoTag", call, err)
		}
	}
	if tag, listed := tags(t, s)[name]; listed {
		t.Errorf("a removed tag is listed: %+v", tag)
	}
}

func testRemove(t *testing.T, open func() Store) {
	s, other := open(), open()
	create(t, s, "order", 10, 1)
	create(t, s, "Order", 20, 5)
	create(t, s, "order.eu", 30, 6)
	first := reserve(t, s, "order", 100)
	remove(t, other, "order")
	gone(t, s, "order")
	gone(t, open(), "order")
	for _, name := range []string{"", "*", ">", "a b"} {
		if err := s.RemoveTag(patient(t), name); !errors.Is(err, store.ErrBadTag) {
			t.Errorf("RemoveTag(%q): %v, want ErrBadTag", name, err)
		}
	}
	if err := s.RemoveTag(patient(t), "missing"); !errors.Is(err, store.ErrNoTag) {
		t.Errorf("RemoveTag of a missing tag: %v, want ErrNoTag", err)
	}
	expect(t, s, "Order", 20, 5)
	expect(t, s, "order.eu", 30, 6)

	for round := range int64(3) { // removed and created again, and again
		create(t, other, "order", 40, first.End+round*10)
		expect(t, s, "order", 40, first.End+round*10)
		if seg := reserve(t, s, "order", 10); seg.First != first.End+round*10 {
			t.Errorf("created again, got %v, want a segment from %d on", seg, first.End+round*10)
		}
		if err := s.CreateTag(patient(t), store.Tag{Name: "order", Step: 1, Next: 1 << 40}); !errors.Is(err, store.ErrTagExists) {
			t.Errorf("CreateTag of a tag that was created again: %v, want ErrTagExists", err)
		}
		remove(t, s, "order")
		gone(t, other, "order")
	}
}

// A tag is removed while others reserve: all their ranges lie below the number
// at which it may be created again.
func testRemoveAgainstReserve(t *testing.T, open func() Store) {
	const goroutines = 4
	admin := open()
	create(t, admin, "order", 10, 1)
	var ledger order.Ledger
	var removed atomic.Bool
	var wg sync.WaitGroup
	for range goroutines {
		s := open()
		wg.Go(func() {
			for {
				late := removed.Load()
				seg, err := Reserve(patient(t), s, "order", 10)
				if errors.Is(err, store.ErrNoTag) {
					return
				}
				if err != nil {
					t.Errorf("Reserve: %v", err)
					return
				}
				ledger.AddSegment("order", 10, seg.Segment)
				if late {
					t.Errorf("got %v of a tag that was removed", seg)
					return
				}
			}
		})
	}
	for ledger.Len() < 20 && !t.Failed() {
		take(t, admin, &ledger, "order", 1)
	}
	err := admin.RemoveTag(patient(t), "order")
	removed.Store(true)
	wg.Wait()
	if err != nil {
		t.Fatalf("RemoveTag: %v", err)
	}
	ledger.Check(t)
	first := ledger.End("order")
	err = admin.CreateTag(patient(t), store.Tag{Name: "order", Step: 10, Next: first})
	var below *store.BelowError
	if _, burns := admin.(MayBurn); burns && errors.As(err, &below) { // a range was burnt on the way
		first = below.Floor
		err = admin.CreateTag(patient(t), store.Tag{Name: "order", Step: 10, Next: first})
	}
	if err != nil {
		t.Fatalf("CreateTag from %d on: %v", first, err)
	}
	if seg := reserve(t, admin, "order", 10); seg.First != first {
		t.Errorf("got %v, want a segment from %d on", seg, first)
	}
}

// RunRemembers checks a behaviour that [Store] leaves open: the store
// keeps the end of a removed tag's IDs. It is for stores that do.
func RunRemembers(t *testing.T, backend Opener) {
	t.Run("RemovedTagComesBackAboveOnly", func(t *testing.T) { testRemovedComesBackAbove(t, backend(t)) })
	t.Run("RemovedTagComesBackByItself", func(t *testing.T) { testReserveFirstRemembers(t, backend(t)) })
	t.Run("RemovedTagComesBackOnce", func(t *testing.T) { testRemovedCreateRace(t, backend(t)) })
}

func testRemovedComesBackAbove(t *testing.T, open func() Store) {
	s := open()
	create(t, s, "order", 10, 1)
	floor := reserve(t, s, "order", 100).End
	for range 3 {
		remove(t, s, "order")
		for _, first := range []int64{1, 2, floor - 1} {
			err := open().CreateTag(patient(t), store.Tag{Name: "order", Step: 10, Next: first})
			var below *store.BelowError
			if !errors.Is(err, store.ErrBelow) || !errors.As(err, &below) || *below != (store.BelowError{Tag: "order", First: first, Floor: floor}) {
				t.Errorf("created again from %d on, below %d: %v, want ErrBelow that says so", first, floor, err)
			}
		}
		gone(t, s, "order")
		create(t, s, "order", 10, floor)
		if seg := reserve(t, s, "order", 10); seg.First != floor {
			t.Errorf("got %v, want a segment from %d on", seg, floor)
		}
		floor += 1000
		raise(t, s, "order", floor)
	}
}

// Several callers create a removed tag again: one succeeds, and no other sets
// it back.
func testRemovedCreateRace(t *testing.T, open func() Store) {
	admin, all := open(), handles(open, 4)
	create(t, admin, "order", 10, 1)
	for range 10 {
		floor := reserve(t, admin, "order", 10).End
		remove(t, admin, "order")
		won := winner(t, race(all, func(i int, s Store) error {
			return s.CreateTag(patient(t), store.Tag{Name: "order", Step: 1, Next: floor + int64(i)})
		}))
		expect(t, admin, "order", 1, floor+int64(won))
	}
}
