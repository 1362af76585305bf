package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/order"
)

func testCancelled(t *testing.T, open func() Store) {
	s := open()
	create(t, s, "order", 10, 1)
	ctx, cancel := context.WithCancel(patient(t))
	cancel()
	for name, call := range map[string]func() error{
		"Reserve": func() error { _, err := Reserve(ctx, s, "order", 10); return err },
		"Lookup":  func() error { _, err := open().Lookup(ctx, "order"); return err },
		"AllTags": func() error { _, _, _, err := s.AllTags(ctx); return err },
		"CreateTag": func() error {
			return s.CreateTag(ctx, store.Tag{Name: "new", Step: 1, Next: 1})
		},
		"SetStep":   func() error { return s.SetStep(ctx, "order", 99) },
		"Raise":     func() error { return s.Raise(ctx, "order", 99) },
		"RemoveTag": func() error { return s.RemoveTag(ctx, "order") },
	} {
		err := call()
		if err == nil {
			t.Errorf("%s with a cancelled context succeeded", name)
		}
		for _, final := range []error{store.ErrNoTag, store.ErrTagExists, store.ErrExhausted, store.ErrBadTag, store.ErrCorrupt} {
			if errors.Is(err, final) {
				t.Errorf("%s with a cancelled context: %v, which says that asking again is useless", name, err)
			}
		}
	}
}

// Calls are cut off at random moments, before, while and after the store
// writes. Whether they succeed or fail, no other call gets their numbers: the
// segments that were returned without an error are disjoint, and the store
// keeps working. It goes on until there are enough of both outcomes, however
// long a call takes by then.
func testCancelledInFlight(t *testing.T, open func() Store) {
	const goroutines, each, enough = 4, 100, 10
	admin := open()
	create(t, admin, "order", 10, 1)

	// A call's duration decides at which moments it is worth cutting.
	start := time.Now()
	for range 10 {
		reserve(t, admin, "order", 1)
	}
	usual := max(time.Since(start)/10, time.Microsecond)

	var ledger order.Ledger
	var cut atomic.Int64
	deadline := time.Now().Add(natstest.Patience)
	more := func(call int) bool {
		return call < each || (ledger.Len() < enough || cut.Load() < enough) && time.Now().Before(deadline)
	}
	var wg sync.WaitGroup
	for g := range goroutines {
		s := open()
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 7))
			last := int64(0)
			for call := 0; more(call); call++ {
				step := 1 + random.Int64N(maxStep)
				within := 4 * usual
				if call >= each { // durations vary with the machine's load
					within = max(within<<random.IntN(12)>>random.IntN(12), time.Nanosecond)
				}
				ctx, cancel := context.WithTimeout(patient(t), time.Duration(random.Int64N(int64(within))))
				seg, err := Reserve(ctx, s, "order", step)
				cancel()
				if err != nil {
					cut.Add(1)
					continue
				}
				if seg.First < last {
					t.Errorf("%v does not lie above %d, which was reserved before", seg, last)
				}
				last = seg.End
				ledger.AddSegment("order", step, seg.Segment)
			}
		})
	}
	wg.Wait()
	t.Logf("%d calls returned a segment, %d were cut off", ledger.Len(), cut.Load())
	if ledger.Len() < enough || cut.Load() < enough {
		t.Errorf("that shows nothing: want %d of each", enough)
	}

	ledger.AddSegment("order", 10, reserve(t, admin, "order", 10))
	ledger.Check(t)
	// A write that was cut off may still arrive, so next may lie further on.
	if next := tags(t, admin)["order"].Next; next < ledger.End("order") {
		t.Errorf("next is %d, below %d, where the last segment ended", next, ledger.End("order"))
	}
}
