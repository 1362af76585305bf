package storetest

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/testing/tier"
)

// maxStep bounds the random steps: large enough to differ, small enough to stay
// far from the end of the numbers.
const maxStep = 5000

// Sequential reservations over two handles follow each other without a gap.
func testReserveSequence(t *testing.T, open func() store.Store) {
	handles := []store.Store{open(), open()}
	create(t, handles[0], "order", 10, 42)
	next := int64(42)
	for i, step := range []int64{10, 10, 1, 1000, 1, 3, 10, 1_000_000} {
		want := store.Segment{First: next, End: next + step}
		if seg := reserve(t, handles[i%2], "order", step); seg != want {
			t.Fatalf("segment %d is %v, want %v", i, seg, want)
		}
		next += step
		expect(t, handles[(i+1)%2], "order", 10, next)
	}
}

func testReserveErrors(t *testing.T, open func() store.Store) {
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
func testReserveRandom(t *testing.T, open func() store.Store) {
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
func testReserveConcurrent(t *testing.T, open func() store.Store) {
	const handles, goroutines = 4, 16
	each := tier.Pick(10, 50)
	names := []string{"a", "b", "c"}
	stores := make([]store.Store, handles)
	for i := range stores {
		stores[i] = open()
	}
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
				seg, err := Reserve(patient(t), stores[g%handles], name, step)
				if err != nil {
					t.Errorf("Reserve(%s, %d): %v", name, step, err)
					return
				}
				if seg.First < last[name] {
					t.Errorf("%s: %v does not lie above %d, which was reserved before", name, seg, last[name])
				}
				last[name] = seg.End
				ledger.AddSegment(name, step, seg.Segment)
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
func testBeginConcurrent(t *testing.T, open func() store.Store) {
	const goroutines = 24
	processes := tier.Pick(3, 10)
	create(t, open(), "order", 10, 1)
	var ledger order.Ledger
	for range processes {
		s := open()
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				seg, err := Reserve(patient(t), s, "order", 10)
				if err != nil {
					t.Errorf("Reserve: %v", err)
					return
				}
				ledger.AddSegment("order", 10, seg.Segment)
			})
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
func testReserveAgainstSetStep(t *testing.T, open func() store.Store) {
	const goroutines, each = 4, 25
	admin := open()
	create(t, admin, "order", 10, 1)
	var ledger order.Ledger
	var wg sync.WaitGroup
	for range goroutines {
		s := open()
		wg.Go(func() {
			for range each {
				seg, err := Reserve(patient(t), s, "order", 10)
				if err != nil {
					t.Errorf("Reserve: %v", err)
					return
				}
				ledger.AddSegment("order", 10, seg.Segment)
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
