package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/testing/tier"
)

// maxStep bounds the random steps: large enough to differ, small enough to stay
// far from the end of the numbers.
const maxStep = 5000

// Sequential reservations over two handles follow each other without a gap.
func testReserveSequence(t *testing.T, open func() Store) {
	all := handles(open, 2)
	create(t, all[0], "order", 10, 42)
	next := int64(42)
	for i, step := range []int64{10, 10, 1, 1000, 1, 3, 10, 1_000_000} {
		want := store.Segment{First: next, End: next + step}
		if seg := reserve(t, all[i%2], "order", step); seg != want {
			t.Fatalf("segment %d is %v, want %v", i, seg, want)
		}
		next += step
		expect(t, all[(i+1)%2], "order", 10, next)
	}
}

func testReserveErrors(t *testing.T, open func() Store) {
	s := open()
	create(t, s, "order", 10, 1)
	for _, step := range []int64{0, -1, -1 << 63} {
		if seg, err := Reserve(patient(t), s, "order", step); !errors.Is(err, store.ErrBadTag) {
			t.Errorf("Reserve of %d: %v, %v, want ErrBadTag", step, seg, err)
		}
	}
	if seg, err := Reserve(patient(t), s, "missing", 10); !errors.Is(err, store.ErrNoTag) {
		t.Errorf("Reserve of a missing tag: %v, %v, want ErrNoTag", seg, err)
	}
	expect(t, s, "order", 10, 1)
	if n := len(tags(t, s)); n != 1 {
		t.Errorf("Reserve left %d tags, want 1", n)
	}
}

// Leaf-like stores compute the range from a step: it must be the requested
// step, not the configured one.
func testReserveRandom(t *testing.T, open func() Store) {
	s := open()
	create(t, s, "order", 10, 1)
	random := rand.New(rand.NewPCG(1, 2))
	var ledger order.Ledger
	for range 100 {
		if random.IntN(4) == 0 {
			if err := s.SetStep(patient(t), "order", 1+random.Int64N(maxStep)); err != nil {
				t.Fatalf("SetStep: %v", err)
			}
		}
		step := 1 + random.Int64N(maxStep)
		ledger.AddSegment("order", step, reserve(t, s, "order", step))
	}
	ledger.Check(t)
	if next := tags(t, s)["order"].Next; next != ledger.End("order") || next != 1+ledger.Sum("order") {
		t.Errorf("next is %d after %d IDs up to %d", next, ledger.Sum("order"), ledger.End("order"))
	}
}

// Several processes with several goroutines each take from several tags.
func testReserveConcurrent(t *testing.T, open func() Store) {
	const goroutines = 16
	each := tier.Pick(10, 50)
	names := []string{"a", "b", "c"}
	stores := handles(open, 4)
	for _, name := range names {
		create(t, stores[0], name, 10, 1)
	}
	var ledger order.Ledger
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 0))
			last := make(map[string]int64)
			for range each {
				name, step := names[random.IntN(len(names))], 1+random.Int64N(maxStep)
				seg, ok := take(t, stores[g%len(stores)], &ledger, name, step)
				if !ok {
					return
				}
				if seg.First < last[name] {
					t.Errorf("%s: %v does not lie above %d, which was reserved before", name, seg, last[name])
				}
				last[name] = seg.End
			}
		})
	}
	wg.Wait()
	ledger.Check(t)
	if ledger.Len() != goroutines*each {
		t.Errorf("%d segments, want %d", ledger.Len(), goroutines*each)
	}
	for name, tag := range tags(t, stores[0]) {
		if tag.Next != ledger.End(name) {
			t.Errorf("%s: next is %d, the last segment ended at %d", name, tag.Next, ledger.End(name))
		}
	}
}

// Each process begins with several calls at once: no state that a handle sets
// up in its first call may depend on a single call. Calls beyond the pool's
// connections take turns.
func testBeginConcurrent(t *testing.T, open func() Store) {
	const goroutines = 24
	processes := tier.Pick(3, 10)
	create(t, open(), "order", 10, 1)
	var ledger order.Ledger
	for range processes {
		s := open()
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() { take(t, s, &ledger, "order", 10) })
		}
		wg.Wait()
		shut(t, s)
	}
	ledger.Check(t)
	if want := processes * goroutines; ledger.Len() != want {
		t.Errorf("%d segments, want %d", ledger.Len(), want)
	}
}

// A step that changes while others reserve must not carry an old Next along.
func testReserveAgainstSetStep(t *testing.T, open func() Store) {
	const goroutines, each = 4, 25
	admin := open()
	create(t, admin, "order", 10, 1)
	var ledger order.Ledger
	var wg sync.WaitGroup
	for range goroutines {
		s := open()
		wg.Go(func() {
			for range each {
				take(t, s, &ledger, "order", 10)
			}
		})
	}
	wg.Go(func() {
		for i := range int64(2 * each) {
			if err := admin.SetStep(patient(t), "order", i+1); err != nil {
				t.Errorf("SetStep: %v", err)
				return
			}
		}
	})
	wg.Wait()
	ledger.Check(t)
	expect(t, admin, "order", 2*each, ledger.End("order"))
	if sum := ledger.Sum("order"); sum != goroutines*each*10 {
		t.Errorf("%d IDs reserved, want %d", sum, goroutines*each*10)
	}
}

// The next process continues behind all ranges handed out.
func testReopen(t *testing.T, open func() Store) {
	s := open()
	create(t, s, "order", 10, 1)
	first := reserve(t, s, "order", 100)
	if err := s.SetStep(patient(t), "order", 20); err != nil {
		t.Fatalf("SetStep: %v", err)
	}
	shut(t, s)

	s = open()
	expect(t, s, "order", 20, first.End)
	if seg := reserve(t, s, "order", 10); seg.First != first.End {
		t.Errorf("after reopening got %v, want a segment from %d on", seg, first.End)
	}
}

// first makes a tag with its first segment or ends the test.
func first(t *testing.T, s Store, name string, step, n int64) store.Segment {
	t.Helper()
	seg, err := ReserveFirst(patient(t), s, store.Tag{Name: name, Step: step, Next: 1}, n)
	if err != nil {
		t.Fatalf("ReserveFirst(%s, %d): %v", name, n, err)
	}
	return seg.Segment
}

func testReserveFirst(t *testing.T, open func() Store) {
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
func testReserveFirstRace(t *testing.T, open func() Store) {
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
func testReserveFirstRemembers(t *testing.T, open func() Store) {
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
