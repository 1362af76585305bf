package allocator_test

import (
	"testing"

	"github.com/idworker/idworker/allocator"
)

// TestRemovedTagRemembersItsHigh: that it was removed does not lower it, nor that it comes back.
func TestRemovedTagRemembersItsHigh(t *testing.T) {
	h := order(10)
	h.request("order", 1)
	h.grantAll()
	h.Update(nil, "order")
	h.Update(map[string]int64{"order": 10})
	r := h.request("order", 1)
	l := h.asked[len(h.asked)-1]
	if l.Above != h.next {
		t.Errorf("asked for %+v, want it above %d", l, h.next)
	}
	if v := h.Grant("order", l.Seq, seg(1, 11)); v.Outcome != allocator.Below {
		t.Errorf("a grant of what was granted before: %+v, want that it is below", v)
	}
	if r.answered > 0 {
		t.Errorf("answered with %v", r.ids)
	}
}
