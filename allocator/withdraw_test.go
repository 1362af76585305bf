package allocator_test

import (
	"testing"

	"github.com/idworker/idworker/allocator"
)

// TestWithdraw: a request that is withdrawn gets no reply, costs no ID and no
// place, and does not hold up the requests behind it. Others stay where they
// are.
func TestWithdraw(t *testing.T) {
	h := newHarness(allocator.Config{MaxParkedPerTag: 3})
	first, gone, behind := h.request("order", 50), h.request("order", 60), h.request("order", 3)
	h.Grant("order", h.asked[0].Seq, h.reserve(10))
	behind.wantNone(t) // not before requests that were parked earlier
	h.Withdraw("order", gone)
	h.Withdraw("order", gone)
	h.Withdraw("order", nil)
	h.Withdraw("nosuch", first)
	behind.wantNone(t)
	h.now += allocator.DefaultReAsk
	h.Tick()
	if l := h.latest(); l.Want != 53 || h.Parked() != 2 {
		t.Fatalf("asked for %+v, with %d requests parked; want 53 for two", l, h.Parked())
	}
	h.Withdraw("order", first)
	behind.want(t, seg(1, 4))
	first.wantNone(t)
	gone.wantNone(t)
	if h.Parked() != 0 {
		t.Errorf("%d requests are parked", h.Parked())
	}

	first, second, gone := h.request("order", 50), h.request("order", 60), h.request("order", 70)
	h.request("order", 40).wantErr(t, allocator.ErrBusy)
	h.Withdraw("order", gone)
	behind = h.request("order", 40)
	h.grantAll()
	last := int64(0)
	for i, o := range []*outcome{first, second, behind} {
		if o.answered != 1 || o.err != nil || o.ids[0].First <= last {
			t.Errorf("request %d: answered %d times with %v, %v, after %d", i, o.answered, o.ids, o.err, last)
			continue
		}
		last = o.ids[len(o.ids)-1].End - 1
	}
	gone.wantNone(t)
}
