package allocator_test

import (
	"errors"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// grantTo forgets what was asked for, and then grants a segment to a load.
func (h *harness) grantTo(seq uint64, s store.Segment) allocator.Verdict {
	h.asked = nil
	return h.Grant("order", seq, s)
}

func (h *harness) latest() allocator.Load { return h.asked[len(h.asked)-1] }

// TestStoreThatWentBack: the first proof of it has a load asked for at once, in which a loader
// finds how far to raise the store. Later ones wait. With a segment that is used the episode
// ends.
func TestStoreThatWentBack(t *testing.T) {
	h := order(70)
	h.request("order", 70)
	h.grantTo(h.latest().Seq, seg(1, 71)) // all of it used
	for episode := range int64(2) {
		above := 71 + 100*episode
		r := h.request("order", 1)
		old := h.latest()
		if old.Above != above {
			t.Fatalf("asked for %+v, want it above %d", old, above)
		}
		want := allocator.Verdict{Outcome: allocator.Below, Above: above, FirstBelow: true}
		if v := h.grantTo(old.Seq, seg(1, 41)); v != want {
			t.Fatalf("below: %+v, want %+v", v, want)
		}
		if len(h.asked) != 1 || h.asked[0].Above != above || h.asked[0].Seq == old.Seq || h.asked[0].Step != old.Step {
			t.Fatalf("asked for %+v at once, want a new load like %+v", h.asked, old)
		}
		retry := h.asked[0]
		if v := h.grantTo(old.Seq, seg(41, 61)); v.Outcome != allocator.Burnt || len(h.asked) != 0 {
			t.Errorf("the second answer to the old load: %+v, asked for %+v; want it burnt", v, h.asked)
		}
		want.FirstBelow = false
		if v := h.grantTo(retry.Seq, seg(41, 61)); v != want || len(h.asked) != 0 {
			t.Errorf("the second below: %+v, asked for %+v; want %+v, and nothing yet", v, h.asked, want)
		}
		h.now += allocator.DefaultReAsk
		h.Tick()
		if len(h.asked) != 1 || h.asked[0].Seq != retry.Seq || h.asked[0].Above != above {
			t.Fatalf("a second later asked for %+v, want %+v again", h.asked, retry)
		}
		if v := h.grantTo(retry.Seq, seg(above, above+100)); v.Outcome != allocator.Used {
			t.Fatalf("a segment of the store that was raised: %+v", v)
		}
		r.want(t, seg(above, above+1))
		h.asked = nil
		h.request("order", 99).want(t, seg(above+1, above+100))
		for _, l := range h.asked { // make room for the next round
			h.Refuse("order", l.Seq, store.ErrExhausted)
		}
		h.now += allocator.DefaultReAsk
		h.asked = nil
	}
}

// TestHonestGrantsAreNoProof: grants that are late, come twice, overtake each other, answer a
// load that was asked for or delivered twice, or say no number, are burnt without a word.
func TestHonestGrantsAreNoProof(t *testing.T) {
	h := order(10)
	h.request("order", 10)
	first := h.latest()
	a, b, c := h.reserve(10), h.reserve(10), h.reserve(10) // the load was delivered three times
	h.grantTo(first.Seq, b)
	h.Refuse("order", h.latest().Seq, store.ErrExhausted) // so that none is under way
	if v := h.grantTo(0, a); v != (allocator.Verdict{}) {
		t.Errorf("without a number, and without a load: %+v, want it burnt", v)
	}
	h.now += allocator.DefaultReAsk
	h.request("order", 10)
	second := h.latest()
	for why, g := range map[string]struct {
		seq uint64
		s   store.Segment
	}{
		"overtaken by another answer": {first.Seq, a},
		"twice":                       {first.Seq, b},
		"without a number":            {0, a},
		"of a load that never was":    {second.Seq + 7, a},
	} {
		if v := h.grantTo(g.seq, g.s); v != (allocator.Verdict{}) || len(h.asked) != 0 {
			t.Errorf("%s: %+v, asked for %+v; want it burnt", why, v, h.asked)
		}
	}
	d := h.reserve(10) // for the second load
	if v := h.grantTo(first.Seq, c); v.Outcome != allocator.Used {
		t.Fatalf("one more answer to the first load, above all: %+v, want it used", v)
	}
	third := h.latest()
	if v := h.grantTo(second.Seq, c); v.Outcome != allocator.Burnt {
		t.Errorf("an answer to a load that is over: %+v, want it burnt", v)
	}
	h.Update(nil, "order")
	h.Update(map[string]int64{"order": 10})
	h.request("order", 1)
	if v := h.grantTo(third.Seq, a); v.Outcome != allocator.Burnt {
		t.Errorf("an answer from before the tag was removed: %+v, want it burnt", v)
	}
	if v := h.grantTo(0, d); v.Outcome != allocator.Used {
		t.Errorf("a higher one: %+v, want it used", v)
	}
}

// TestBurntGrantsRaiseHigh: a grant for which there is no room was given away all the same, and
// so was one of a tag that is gone.
func TestBurntGrantsRaiseHigh(t *testing.T) {
	h := order(10)
	h.request("order", 1)
	h.grantAll()
	h.grantTo(0, h.reserve(10))
	if v := h.grantTo(0, h.reserve(10)); v.Outcome != allocator.Burnt {
		t.Fatalf("without room: %+v, want it burnt", v)
	}
	h.request("order", 19)
	if l := h.latest(); l.Above != h.next {
		t.Errorf("asked for %+v, want it above %d", l, h.next)
	}
	h.Update(nil, "order")
	h.grantTo(0, h.reserve(10))
	h.Update(map[string]int64{"order": 10})
	h.request("order", 1)
	if l := h.latest(); l.Above != h.next {
		t.Errorf("asked for %+v after the tag came back, want it above %d", l, h.next)
	}
}

// TestStoreThatForgotATag: that there is no such tag is believed of a tag that was never
// granted. Any other tag keeps its load, and a request waits until its deadline, or until
// the tag is removed here.
func TestStoreThatForgotATag(t *testing.T) {
	h := order(10)
	cold := h.request("order", 1)
	h.Refuse("order", h.latest().Seq, store.ErrNoTag)
	if !errors.Is(cold.err, store.ErrNoTag) {
		t.Errorf("a tag that was never granted: %v, want ErrNoTag", cold.err)
	}
	h.now += allocator.DefaultReAsk
	h.asked = nil
	h.request("order", 1)
	h.grantAll()

	batch := h.request("order", 100)
	l := h.latest()
	h.Refuse("order", l.Seq, store.ErrNoTag)
	if batch.answered != 0 {
		t.Fatalf("with IDs in memory: %v, want the request to wait", batch.err)
	}
	h.request("order", 1).want(t, seg(2, 3)) // from memory
	h.asked = nil
	h.now += allocator.DefaultReAsk
	h.Tick()
	if len(h.asked) != 1 || h.asked[0].Seq != l.Seq {
		t.Errorf("asked for %+v, want %+v again", h.asked, l)
	}
	h.grantAll() // the row is back
	if batch.answered != 1 || batch.err != nil {
		t.Errorf("when the tag is back: answered %d times, %v", batch.answered, batch.err)
	}

	late := h.request("order", allocator.DefaultMaxStep)
	h.Refuse("order", h.latest().Seq, store.ErrNoTag)
	h.now += allocator.DefaultWait - time.Millisecond
	h.Tick()
	if late.answered != 0 {
		t.Fatalf("before the deadline: %v", late.err)
	}
	h.now += time.Millisecond
	h.Tick()
	if !errors.Is(late.err, allocator.ErrNoSegment) {
		t.Errorf("at the deadline: %v, want ErrNoSegment", late.err)
	}
	gone := h.request("order", allocator.DefaultMaxStep)
	h.Update(nil, "order")
	if !errors.Is(gone.err, store.ErrNoTag) {
		t.Errorf("when the tag is removed: %v, want ErrNoTag", gone.err)
	}
}
