package allocator_test

import (
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
)

// grantUpTo serves requested loads like a loader whose grants have at most that
// many IDs.
func (h *harness) grantUpTo(most int64) {
	for len(h.asked) > 0 {
		l := h.asked[0]
		h.asked = h.asked[1:]
		h.Grant(l.Tag, l.Seq, h.reserve(min(h.size(l), most)))
	}
}

// TestSegmentsAheadAreBounded: while the buffer does not last, a tag loads
// ahead, but it holds no more than four segments behind the current one.
func TestSegmentsAheadAreBounded(t *testing.T) {
	const grant, ahead = 1000, 4
	h := order(grant)
	held := int64(0)
	// Ten IDs a second: they need nine such segments for 15 minutes.
	for range 20_000 {
		h.now += 100 * time.Millisecond
		h.request("order", 1)
		h.grantUpTo(grant)
		held = max(held, h.Figures()[0].Left)
	}
	if held > (1+ahead)*grant {
		t.Errorf("%d IDs were buffered, want %d segments of %d at most", held, 1+ahead, grant)
	}
	if held <= ahead*grant {
		t.Errorf("%d IDs were buffered: the bound was not reached", held)
	}
}

// TestLoadAfterARegressionKeepsItsStep: the load that replaces one whose grant
// was too low has another number and the same step, although a step that is
// chosen now would be larger.
func TestLoadAfterARegressionKeepsItsStep(t *testing.T) {
	h := order(10)
	h.request("order", 10)
	h.grantAll()
	h.now += time.Second
	parked := h.request("order", 1000)
	old := h.latest()
	if old.Step <= 10 {
		t.Fatalf("asked for %+v, want more than the configured step", old)
	}
	h.now += 10 * time.Millisecond
	if v := h.grantTo(old.Seq, seg(1, 11)); v.Outcome != allocator.Below {
		t.Fatalf("a grant of IDs that were granted before: %+v", v)
	}
	if len(h.asked) != 1 || h.asked[0].Seq == old.Seq || h.asked[0].Step != old.Step {
		t.Errorf("asked for %+v after %+v, want a new load with the same step", h.asked, old)
	}
	h.grantAll()
	if parked.answered != 1 || parked.err != nil {
		t.Errorf("answered %d times, %v", parked.answered, parked.err)
	}
}
