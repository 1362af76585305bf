package allocator_test

import (
	"testing"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// TestWithdraw: a request that nobody wants any more is dropped without an answer, costs no ID and no
// place, and does not hold up those behind it.
func TestWithdraw(t *testing.T) {
	h := newHarness(allocator.Config{MaxParkedPerTag: 2})
	wanted := true
	gone := 0
	park := func() {
		t.Helper()
		ids, err := h.TakeOrPark("order", allocator.Request{N: 50, Wanted: func() bool { return wanted }, Answer: func([]store.Segment, error) { gone++ }})
		if ids != nil || err != nil {
			t.Fatalf("got %v, %v; want it parked", ids, err)
		}
	}
	park()
	behind := h.request("order", 3)
	h.Grant("order", h.asked[0].Seq, h.reserve(10))
	if behind.answered != 0 {
		t.Fatal("a request was answered before the one that was parked before it")
	}
	h.Withdraw("order")
	if h.Parked() != 2 {
		t.Fatalf("%d requests parked, want both: they are wanted", h.Parked())
	}
	wanted = false
	h.Withdraw("order")
	behind.want(t, seg(1, 4))
	if gone != 0 || h.Parked() != 0 {
		t.Errorf("the withdrawn request was answered %d times, and %d are parked", gone, h.Parked())
	}
	h.Withdraw("nosuch")

	wanted = true
	park()
	park()
	h.request("order", 40).wantErr(t, allocator.ErrBusy)
	wanted = false
	h.Withdraw("order")
	h.request("order", 7).want(t, seg(4, 11))
	h.request("order", 1)
	if l, ok := h.CurrentLoad("order", h.asked[len(h.asked)-1].Seq); !ok || l.Want != 1 {
		t.Errorf("%+v is wanted (%v), and only one request is parked, for 1", l, ok)
	}
}
