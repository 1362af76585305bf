package allocator_test

import (
	"errors"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// order returns a harness with a tag of the given step.
func order(step int64) *harness {
	h := newHarness(allocator.Config{})
	h.step = step
	return h
}

func TestColdTagParksThenAnswers(t *testing.T) {
	h := order(10)
	first, second := h.request("order", 1), h.request("order", 2)
	if first.answered+second.answered != 0 {
		t.Fatal("answered before a segment came")
	}
	if len(h.asked) != 1 {
		t.Fatalf("%d loads asked for, want 1", len(h.asked))
	}
	h.grantAll()
	first.want(t, seg(1, 2))
	second.want(t, seg(2, 4))
	h.request("order", 1).want(t, seg(4, 5))
}

func TestNextSegmentIsAskedForAtHalf(t *testing.T) {
	h := order(100)
	h.request("order", 1)
	h.grantAll() // 1 of 100 used
	h.request("order", 49)
	if len(h.asked) != 0 {
		t.Fatal("asked at 50 %")
	}
	h.request("order", 2)
	if len(h.asked) != 1 {
		t.Fatal("not asked at 52 %")
	}
	h.request("order", 40)
	if len(h.asked) != 1 {
		t.Fatal("asked twice for one load")
	}
}

// TestStepOfOne: even a buffer of a single ID is refilled ahead of need.
func TestStepOfOne(t *testing.T) {
	h := order(1)
	h.request("order", 1)
	h.grantAll()
	if left := h.Figures()[0].Left; left != 1 {
		t.Errorf("%d IDs are buffered, want 1", left)
	}
}

// TestChangedStep: a step that is raised or lowered in the table counts from the
// load after the grant that brings it.
func TestChangedStep(t *testing.T) {
	h := order(1000)
	h.request("order", 1)
	h.grantAll()
	// empty uses up the buffer after a day, of which hardly anything counts.
	empty := func() {
		left := h.Figures()[0].Left
		h.now += 24 * time.Hour
		h.request("order", left)
	}
	for _, step := range []int64{5000, 20, 700} {
		h.step = step
		empty()
		h.grantAll()
		empty()
		if l := h.latest(); l.Step < step || l.Step > step+step/10+200 {
			t.Errorf("a load of %d after the step was set to %d", l.Step, step)
		}
		h.grantAll()
	}
}

func TestBatchRunsOnIntoTheReadySegment(t *testing.T) {
	h := order(10)
	h.request("order", 6)
	h.grantAll() // [1,11) current, [11,21) ready
	h.request("order", 10).want(t, seg(7, 17))
}

func TestBatchAcrossAGapHasTwoRanges(t *testing.T) {
	h := order(10)
	h.request("order", 6)
	h.Grant("order", h.asked[0].Seq, h.reserve(10))
	h.reserve(100) // another worker's
	h.grantAll()
	h.request("order", 10).want(t, seg(7, 11), seg(111, 117))
}

func TestBatchLargerThanAllBuffersIsServed(t *testing.T) {
	h := order(10)
	h.request("order", 1)
	h.grantAll()
	batch := h.request("order", 500)
	// Small requests need not wait behind it.
	h.request("order", 1).want(t, seg(2, 3))
	if writes := h.grantAll(); writes != 1 {
		t.Errorf("%d store writes, want one that serves the batch and fills the buffer", writes)
	}
	if batch.answered != 1 || batch.err != nil {
		t.Fatalf("answered %d times, %v", batch.answered, batch.err)
	}
	var n int64
	for _, s := range batch.ids {
		n += s.Len()
	}
	if n != 500 {
		t.Fatalf("got %d IDs, want 500", n)
	}
}

func TestThousandMissesCostTwoStoreWrites(t *testing.T) {
	h := order(1000)
	var requests []*outcome
	for range 1000 {
		requests = append(requests, h.request("order", 1))
	}
	if writes := h.grantAll(); writes > 2 {
		t.Fatalf("%d store writes, want at most 2", writes)
	}
	for i, r := range requests {
		r.want(t, seg(int64(i)+1, int64(i)+2))
	}
}

func TestLostGrantIsAskedForAgain(t *testing.T) {
	h := order(10)
	r := h.request("order", 3)
	lost := h.asked[0]
	h.asked = nil
	h.now += allocator.DefaultReAsk
	h.Tick()
	if len(h.asked) != 1 || h.asked[0].Seq != lost.Seq {
		t.Fatalf("asked for %+v, want load %d a second time", h.asked, lost.Seq)
	}
	h.grantAll()
	r.want(t, seg(1, 4))
}

func TestDeadlineAnswersAndBurnsNothing(t *testing.T) {
	h := order(10)
	h.request("order", 1)
	h.grantAll()
	batch := h.request("order", 100)
	h.now += allocator.DefaultWait
	h.Tick()
	if !errors.Is(batch.err, allocator.ErrNoSegment) {
		t.Fatalf("got %v, want ErrNoSegment", batch.err)
	}
	h.request("order", 9).want(t, seg(2, 11))
	h.asked = nil
	h.now += time.Hour
	h.Tick()
	if h.Parked() != 0 || batch.answered != 1 {
		t.Fatalf("%d parked, answered %d times", h.Parked(), batch.answered)
	}
}

func TestGrantsThatDoNotFitAreBurnt(t *testing.T) {
	h := order(10)
	h.request("order", 10)
	h.Grant("order", h.asked[0].Seq, h.reserve(10))
	low, high := h.reserve(10), h.reserve(10)
	for _, g := range []struct {
		why  string
		tag  string
		s    store.Segment
		used bool
	}{
		{"a tag that is not in memory", "invoice", seg(1, 11), false},
		{"empty", "order", seg(5, 5), false},
		{"reversed", "order", seg(9, 2), false},
		{"zero", "order", seg(0, 10), false},
		{"negative", "order", seg(-5, 5), false},
		{"the newer one first, of no load", "order", high, true},
		{"late, below the newer one", "order", low, false},
		{"doubled", "order", high, false},
		{"overlapping", "order", seg(high.End-1, high.End+5), false},
		{"next", "order", h.reserve(10), true},
		{"no room", "order", h.reserve(10), false},
	} {
		want := allocator.Burnt
		if g.used {
			want = allocator.Used
		}
		if v := h.Grant(g.tag, 0, g.s); v.Outcome != want {
			t.Errorf("%s: %+v, want used %t", g.why, v, g.used)
		}
	}
}

func TestParkedRequestsAreBounded(t *testing.T) {
	h := newHarness(allocator.Config{MaxParkedPerTag: 2, MaxParked: 3})
	h.request("a", 1)
	h.request("a", 1)
	if r := h.request("a", 1); !errors.Is(r.err, allocator.ErrBusy) {
		t.Errorf("third for one tag: %v, want ErrBusy", r.err)
	}
	h.request("b", 1)
	if r := h.request("b", 1); !errors.Is(r.err, allocator.ErrBusy) {
		t.Errorf("fourth in all: %v, want ErrBusy", r.err)
	}
	h.grantAll()
	if h.Parked() != 0 {
		t.Errorf("%d parked after the grants", h.Parked())
	}
	h.request("b", 1000)
	if h.Parked() != 1 {
		t.Errorf("%d parked, want 1: places are free again", h.Parked())
	}
}

func TestCountBelowOne(t *testing.T) {
	h := order(10)
	h.request("order", 1)
	h.grantAll()
	for _, n := range []int64{0, -1, -1 << 63} {
		if r := h.request("order", n); !errors.Is(r.err, allocator.ErrCount) {
			t.Errorf("%d: %v, %v; want ErrCount", n, r.ids, r.err)
		}
	}
}

func TestLastIDs(t *testing.T) {
	const top = 1<<63 - 1
	h := order(10)
	r := h.request("order", 2)
	h.Grant("order", h.asked[0].Seq, seg(top-3, top))
	r.want(t, seg(top-3, top-1))
	h.asked = nil
	last, none := h.request("order", 1), h.request("order", 1)
	last.want(t, seg(top-1, top))
	h.now += allocator.DefaultWait
	h.Tick()
	if !errors.Is(none.err, allocator.ErrNoSegment) {
		t.Fatalf("got %v, %v past the last ID", none.ids, none.err)
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	h := order(allocator.DefaultMaxStep)
	h.request("order", 1)
	h.grantAll()
	allocs := testing.AllocsPerRun(1000, func() {
		if _, ok := h.Take("order", 1); !ok {
			t.Fatal("missed")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations per Take, want 0", allocs)
	}
}
