package allocator_test

import (
	"errors"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// strict returns a harness with a strict tag that has been granted up to 1. Its
// loads are sent by send.
func strict(cfg allocator.Config) *harness {
	h := newHarness(cfg)
	h.order, h.held = store.Strict, true
	h.request("order", 1)
	h.grantAll()
	return h
}

// send sends the only load that is to be sent.
func (h *harness) send(t *testing.T) allocator.Load {
	t.Helper()
	h.asked = nil
	if !h.sendOne() || h.sendOne() {
		t.Fatalf("asked for %+v, want one load", h.asked)
	}
	return h.latest()
}

// TestStrictLoadIsFixedWhenItIsSent: a load has the requests that are parked
// when it is sent; later requests wait for the next load, whose time comes with
// the grant. A repeated load is the same.
func TestStrictLoadIsFixedWhenItIsSent(t *testing.T) {
	h := strict(allocator.Config{})
	first, second := h.request("order", 2), h.request("order", 3)
	sent := h.send(t)
	third := h.request("order", 4)
	if sent.Want != 5 || sent.Step != 0 || sent.First {
		t.Errorf("sent %+v, want it for 5 IDs, without a step", sent)
	}
	h.now += allocator.DefaultReAsk
	h.Tick()
	if again := h.send(t); again.Seq != sent.Seq || again.Want != 5 {
		t.Errorf("sent %+v, and then %+v; want the same again", sent, again)
	}
	h.asked = nil
	h.Grant("order", sent.Seq, h.reserve(5))
	first.want(t, seg(2, 4))
	second.want(t, seg(4, 7))
	third.wantNone(t)
	if next := h.send(t); next.Seq == sent.Seq || next.Want != 4 {
		t.Errorf("then asked for %+v, want one load for 4", next)
	}
	h.grantAll()
	third.want(t, seg(7, 11))
	if h.Loading() != 0 {
		t.Errorf("%d loads are under way, and nothing is parked", h.Loading())
	}
}

// TestStrictLoadIsBounded: requests that do not fit under MaxStep together wait
// for the next load.
func TestStrictLoadIsBounded(t *testing.T) {
	h := strict(allocator.Config{MaxStep: 10})
	requests := []*outcome{h.request("order", 4), h.request("order", 6), h.request("order", 1)}
	if sent := h.send(t); sent.Want != 10 {
		t.Errorf("sent %+v, want it for the first two", sent)
	}
	if writes := h.grantAll(); writes != 2 {
		t.Errorf("%d writes, want 2", writes)
	}
	requests[2].want(t, seg(12, 13))
	h.request("order", 50)
	if sent := h.send(t); sent.Want != 50 {
		t.Errorf("sent %+v; a request that is larger than MaxStep must not wait for ever", sent)
	}
}

// TestRestOfAStrictGrantIsBurnt: surplus IDs, and those of requests that have
// gone, are lost. Requests that do not fit go into the next load.
func TestRestOfAStrictGrantIsBurnt(t *testing.T) {
	h := strict(allocator.Config{})
	gone := h.request("order", 3)
	first, large, small := h.request("order", 4), h.request("order", 4), h.request("order", 1)
	sent := h.send(t)
	late := h.request("order", 1)
	h.Withdraw("order", gone)
	h.Grant("order", sent.Seq, h.reserve(6)) // fewer than requested
	first.want(t, seg(2, 6))
	small.want(t, seg(6, 7))
	large.wantNone(t)
	late.wantNone(t)
	if h.Burnt() != 1 {
		t.Errorf("%d IDs burnt, want 1", h.Burnt())
	}
	if v := h.Grant("order", sent.Seq, h.reserve(9)); v.Outcome != allocator.Burnt {
		t.Errorf("the second answer: %+v, want it burnt", v)
	}
	h.grantAll()
	large.want(t, seg(17, 21))
	late.want(t, seg(21, 22))
	if _, ok := h.Take("order", 1); ok {
		t.Error("an ID was in memory")
	}
}

// TestRequestLargerThanAGrant: it gets an error, for the next grant would be as
// small.
func TestRequestLargerThanAGrant(t *testing.T) {
	h := strict(allocator.Config{})
	large, small := h.request("order", 5), h.request("order", 1)
	h.Grant("order", h.send(t).Seq, h.reserve(4))
	if !errors.Is(large.err, allocator.ErrTooMany) {
		t.Errorf("got %v", large.err)
	}
	small.want(t, seg(2, 3))
}

// TestStrictLoadIsGivenUp with the last of its requests, so that the next
// request begins another immediately.
func TestStrictLoadIsGivenUp(t *testing.T) {
	h := strict(allocator.Config{})
	gone := h.request("order", 1)
	lost := h.send(t)
	h.now += time.Second
	behind := h.request("order", 1)
	h.Withdraw("order", gone)
	if next := h.send(t); next.Seq == lost.Seq || h.UnderWay("order", lost.Seq) {
		t.Fatalf("asked for %+v, want a new load for the request behind", next)
	}
	if v := h.Grant("order", lost.Seq, h.reserve(1)); v.Outcome != allocator.Burnt {
		t.Errorf("a grant of the old load: %+v, want it burnt", v)
	}
	h.now += allocator.DefaultWait
	h.Tick()
	behind.wantErr(t, allocator.ErrNoSegment)
	if h.Loading() != 0 {
		t.Errorf("%d loads are under way after the deadline", h.Loading())
	}
	next := h.request("order", 1)
	h.grantAll()
	next.want(t, seg(3, 4))
}

// TestUnknownTag: it is loaded like a strict tag, and its first grant decides.
// The rest of a trend grant is kept, and may serve later requests. IDs of a
// strict tag cannot be prefetched.
func TestUnknownTag(t *testing.T) {
	for _, order := range []store.Order{store.Trend, store.Strict} {
		h := newHarness(allocator.Config{})
		h.order, h.held = order, true
		kept := h.park(allocator.Request{Tag: "order", N: 2, Kept: true})
		sent := h.send(t)
		if !sent.First || sent.Step != 0 || sent.Want != 2 {
			t.Errorf("sent %+v, want a first load for 2", sent)
		}
		later, laterKept := h.request("order", 1), h.park(allocator.Request{Tag: "order", N: 2, Kept: true})
		if len(h.Figures()) != 0 {
			t.Error("an unknown tag has figures")
		}
		h.Grant("order", sent.Seq, h.reserve(10))
		if order == store.Trend {
			kept.want(t, seg(1, 3))
			later.want(t, seg(3, 4))
			laterKept.want(t, seg(4, 6))
			h.park(allocator.Request{Tag: "order", N: 1, Kept: true}).want(t, seg(6, 7))
		} else {
			kept.wantErr(t, allocator.ErrStrict)
			later.wantNone(t)
			laterKept.wantErr(t, allocator.ErrStrict)
			h.park(allocator.Request{Tag: "order", N: 1, Kept: true}).wantErr(t, allocator.ErrStrict)
			h.grantAll()
			later.want(t, seg(11, 12))
		}
	}
}

// TestStrictTagRefusesBeforeItReserves: the loader that finds an unknown tag
// strict reserves nothing for requests that a strict tag refuses. A request that
// came later gets the tag's first ID.
func TestStrictTagRefusesBeforeItReserves(t *testing.T) {
	h := newHarness(allocator.Config{})
	h.order, h.held = store.Strict, true
	kept := h.park(allocator.Request{Tag: "order", N: 2, Kept: true})
	sent := h.send(t)
	if sent.Want != 2 || sent.TrendOnly != 2 {
		t.Errorf("sent %+v, want it for 2 IDs, both for a trend tag only", sent)
	}
	later := h.request("order", 1)
	h.Refuse("order", sent.Seq, store.ErrStrict)
	kept.wantErr(t, allocator.ErrStrict)
	later.wantNone(t)
	if next := h.send(t); next.Want != 1 || next.TrendOnly != 0 {
		t.Errorf("sent %+v, want it for the later request", next)
	}
	h.grantAll()
	later.want(t, seg(1, 2))
	if h.Burnt() != 0 || h.Loading() != 0 || h.Parked() != 0 {
		t.Errorf("%d IDs burnt, %d loads, %d parked, want none", h.Burnt(), h.Loading(), h.Parked())
	}
}

// TestStrictTagIsNotAskedForAgain: after a loader has found a tag strict, requests
// that only a trend tag serves cost no load for a while, and others do.
func TestStrictTagIsNotAskedForAgain(t *testing.T) {
	h := newHarness(allocator.Config{})
	h.order, h.held = store.Strict, true
	kept := allocator.Request{Tag: "order", N: 2, Kept: true}
	first := h.park(kept)
	h.Refuse("order", h.send(t).Seq, store.ErrStrict)
	first.wantErr(t, allocator.ErrStrict)
	for range 100 {
		if _, err := h.TakeOrPark(kept); !errors.Is(err, allocator.ErrStrict) {
			t.Fatalf("the next request: %v, want %v", err, allocator.ErrStrict)
		}
	}
	plain := h.request("order", 1)
	h.send(t)
	h.grantAll()
	plain.want(t, seg(1, 2))
}

// TestMixedRequestsOfAnUnknownTag: of requests that are sent together, only those
// count that a strict tag serves.
func TestMixedRequestsOfAnUnknownTag(t *testing.T) {
	h := newHarness(allocator.Config{})
	h.order, h.held = store.Strict, true
	kept, plain := h.park(allocator.Request{Tag: "order", N: 2, Kept: true}), h.request("order", 3)
	sent := h.send(t)
	if sent.Want != 5 || sent.TrendOnly != 2 {
		t.Errorf("sent %+v, want it for 5, of which 2 for a trend tag only", sent)
	}
	h.Grant("order", sent.Seq, h.reserve(3))
	kept.wantErr(t, allocator.ErrStrict)
	plain.want(t, seg(1, 4))
}

// TestFirstGrantWithoutAStep: the size of the grant becomes a trend tag's step.
func TestFirstGrantWithoutAStep(t *testing.T) {
	h := order(0)
	h.request("order", 1)
	h.Grant("order", h.latest().Seq, seg(1, 501))
	h.step = -1
	h.request("order", 499)
	if l := h.latest(); l.Step < 500 || l.First {
		t.Errorf("asked for %+v, want a step of 500 or more", l)
	}
}

// TestFiguresOfAStrictTag: it has no buffer, so its runway never ends.
func TestFiguresOfAStrictTag(t *testing.T) {
	h := strict(allocator.Config{})
	for range 100 {
		h.now += time.Second
		h.request("order", 3)
		h.grantAll()
	}
	h.request("order", 1)
	f := h.Figures()[0]
	if f.Rate < 2.5 || f.Rate > 3.5 || f.Use < 2 || f.Use > 4 {
		t.Errorf("%+v, want a rate of 3", f)
	}
	f.Rate, f.Use, f.Over = 0, 0, 0
	want := allocator.Figures{Tag: "order", Order: store.Strict, Total: 301, Granted: 301, Runway: allocator.MaxRunway, Parked: 1, Loading: true, High: 302}
	if f != want {
		t.Errorf("%+v, want %+v", f, want)
	}
}
