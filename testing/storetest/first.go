package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/order"
)

// first makes a tag with its first segment or ends the test.
func first(t *testing.T, s store.Store, name string, step, n int64) store.Segment {
	t.Helper()
	seg, err := ReserveFirst(patient(t), s, store.Tag{Name: name, Step: step, Next: 1}, n)
	if err != nil {
		t.Fatalf("ReserveFirst(%s, %d): %v", name, n, err)
	}
	return seg.Segment
}

func testReserveFirst(t *testing.T, open func() store.Store) {
	s, other := open(), open()
	if seg := first(t, s, "chat.1", 10, 25); seg != (store.Segment{First: 1, End: 26}) {
		t.Errorf("the first segment is %v, want [1, 26)", seg)
	}
	expect(t, other, "chat.1", 10, 26)
	if seg, err := ReserveFirst(patient(t), other, store.Tag{Name: "chat.1", Step: 10, Next: 1}, 5); !errors.Is(err, store.ErrTagExists) {
		t.Errorf("a second first segment: %v, %v, want ErrTagExists", seg, err)
	}
	if seg := reserve(t, other, "chat.1", 10); seg.First != 26 {
		t.Errorf("the second segment is %v, want [26, 36)", seg)
	}
	create(t, s, "chat.2", 10, 7)
	if _, err := ReserveFirst(patient(t), other, store.Tag{Name: "chat.2", Step: 10, Next: 1}, 5); !errors.Is(err, store.ErrTagExists) {
		t.Errorf("the first segment of a tag that was created: %v, want ErrTagExists", err)
	}
	if seg, err := ReserveFirst(patient(t), s, store.Tag{Name: "chat.3", Step: 10, Next: 100}, 5); err != nil || seg.First != 100 {
		t.Errorf("a first segment from 100 on: %v, %v", seg, err)
	}
	for _, bad := range []store.Tag{{Name: "", Step: 1, Next: 1}, {Name: "chat.*", Step: 1, Next: 1}, {Name: "x", Step: 0, Next: 1}, {Name: "x", Step: 1}} {
		if seg, err := ReserveFirst(patient(t), s, bad, 5); !errors.Is(err, store.ErrBadTag) && !errors.Is(err, messages.ErrTag) {
			t.Errorf("ReserveFirst(%+v): %v, %v, want ErrBadTag", bad, seg, err)
		}
	}
	if seg, err := ReserveFirst(patient(t), s, store.Tag{Name: "x", Step: 1, Next: 1}, 0); !errors.Is(err, store.ErrBadTag) {
		t.Errorf("a first segment of 0 IDs: %v, %v, want ErrBadTag", seg, err)
	}
	if tag, there := tags(t, s)["x"]; there {
		t.Errorf("a refused tag was made: %+v", tag)
	}
}

// Many callers create the same tags at once: each gets a range of its own, and
// one of them the first.
func testReserveFirstRace(t *testing.T, open func() store.Store) {
	const goroutines, rounds = 8, 12
	var ledger order.Ledger
	var made atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		s := open()
		wg.Go(func() {
			for i := range rounds {
				name := fmt.Sprint("chat.", i)
				seg, err := ReserveFirst(patient(t), s, store.Tag{Name: name, Step: 10, Next: 1}, 10)
				switch {
				case errors.Is(err, store.ErrTagExists):
					if seg, err = Reserve(patient(t), s, name, 10); err != nil {
						t.Errorf("Reserve: %v", err)
						return
					}
				case err != nil:
					t.Errorf("ReserveFirst: %v", err)
					return
				default:
					made.Add(1)
				}
				ledger.AddSegment(name, 10, seg.Segment)
			}
		})
	}
	wg.Wait()
	ledger.Check(t)
	if _, burns := open().(MayBurn); made.Load() != rounds && !burns {
		t.Errorf("%d of %d tags were made, want each once", made.Load(), rounds)
	}
}

// A removed tag comes back above all IDs it had handed out.
func testReserveFirstRemembers(t *testing.T, open func() store.Store) {
	s, other := open(), open()
	had := first(t, s, "chat.1", 10, 50)
	for round := range 3 {
		remove(t, s, "chat.1")
		seg := first(t, other, "chat.1", 10, 5)
		if seg.First < had.End || seg.Len() != 5 {
			t.Errorf("round %d: made again it got %v, all below %d was handed out", round, seg, had.End)
		}
		had = seg
		if next := reserve(t, s, "chat.1", 5); next.First < had.End {
			t.Errorf("round %d: then %v, after %v", round, next, had)
		} else {
			had = next
		}
	}
}
