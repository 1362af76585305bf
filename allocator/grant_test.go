package allocator_test

import (
	"errors"
	"testing"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// grantTo discards the loads so far, and then grants a segment to a load.
func (h *harness) grantTo(seq uint64, s store.Segment) allocator.Verdict {
	h.asked = nil
	return h.Grant("order", seq, s)
}

func (h *harness) latest() allocator.Load { return h.asked[len(h.asked)-1] }

// TestGranted: the figures count the IDs of each grant that ends a load, used or
// not. A duplicate counts once.
func TestGranted(t *testing.T) {
	for _, order := range []store.Order{store.Trend, store.Strict} {
		h := newHarness(allocator.Config{})
		h.step, h.order = 100, order
		h.request("order", 30)
		seq := h.latest().Seq
		for range 2 {
			h.Grant("order", seq, seg(1, 101))
		}
		if f := h.Figures()[0]; f.Total != 30 || f.Granted != 100 {
			t.Errorf("%s: %d of %d handed out, want 30 of 100", order, f.Total, f.Granted)
		}
	}
}

// TestStoreThatWentBack: the first proof of a regression makes a new load due
// immediately, so that another loader may grant a higher range. Later proofs do
// not. The episode ends with a used segment. A strict tag detects it as well.
func TestStoreThatWentBack(t *testing.T) {
	for _, order := range []store.Order{store.Trend, store.Strict} {
		t.Run(string(order), func(t *testing.T) { storeThatWentBack(t, order) })
	}
}

func storeThatWentBack(t *testing.T, order store.Order) {
	h := newHarness(allocator.Config{})
	h.step, h.order = 100, order
	send := func() (seq uint64) {
		seq = h.latest().Seq
		return seq
	}
	h.request("order", 100)
	h.grantTo(send(), seg(1, 101)) // all of it used
	for episode := range int64(2) {
		above := 101 + 100*episode
		r := h.request("order", 100)
		old := send()
		want := allocator.Verdict{Outcome: allocator.Below, Above: above, FirstBelow: true}
		if v := h.grantTo(old, seg(1, 101)); v != want {
			t.Fatalf("below: %+v, want %+v", v, want)
		}
		if len(h.asked) != 1 || h.asked[0].Seq == old || h.asked[0].Want != 100 {
			t.Fatalf("asked for %+v at once, want a new load for the same request", h.asked)
		}
		retry := send()
		if v := h.grantTo(old, seg(41, 61)); v.Outcome != allocator.Burnt || len(h.asked) != 0 {
			t.Errorf("the second answer to the old load: %+v, asked for %+v; want it burnt", v, h.asked)
		}
		want.FirstBelow = false
		if v := h.grantTo(retry, seg(41, 141)); v != want || len(h.asked) != 0 {
			t.Errorf("the second below: %+v, asked for %+v; want %+v, and nothing yet", v, h.asked, want)
		}
		h.now += allocator.DefaultReAsk
		h.Tick()
		if len(h.asked) != 1 || h.asked[0].Seq != retry {
			t.Fatalf("a second later asked for %+v, want load %d again", h.asked, retry)
		}
		if v := h.grantTo(retry, seg(above, above+100)); v.Outcome != allocator.Used {
			t.Fatalf("a segment of the store that was raised: %+v", v)
		}
		r.want(t, seg(above, above+100))
	}
}

// TestHonestGrantsAreNoProof: grants of a trend tag that are late, come twice,
// overtake each other, answer a load that was sent or delivered twice, or have
// no number, are burnt without a conclusion.
func TestHonestGrantsAreNoProof(t *testing.T) {
	h := order(10)
	h.request("order", 10)
	first := h.latest()
	// The load was delivered three times.
	a, b, c := h.reserve(10), h.reserve(10), h.reserve(10)
	h.grantTo(first.Seq, b)
	// So that none is under way.
	h.Refuse("order", h.latest().Seq, store.ErrExhausted)
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
	if v := h.grantTo(first.Seq, c); v.Outcome != allocator.Used {
		t.Fatalf("one more answer to the first load, above all: %+v, want it used", v)
	}
	if v := h.grantTo(second.Seq, c); v.Outcome != allocator.Burnt {
		t.Errorf("an answer to a load that is over: %+v, want it burnt", v)
	}
}

// TestBurntGrantsRaiseHigh: a grant for which there is no room was reserved all
// the same.
func TestBurntGrantsRaiseHigh(t *testing.T) {
	h := order(10)
	h.request("order", 1)
	h.grantAll()
	h.grantTo(0, h.reserve(10))
	if v := h.grantTo(0, h.reserve(10)); v.Outcome != allocator.Burnt {
		t.Fatalf("without room: %+v, want it burnt", v)
	}
	h.request("order", 19)
	if v := h.grantTo(h.latest().Seq, seg(h.next-5, h.next+5)); v.Outcome != allocator.Below || v.Above != h.next {
		t.Errorf("%+v, want it below %d", v, h.next)
	}
}

// TestOrderNeverChanges: a grant without an order is burnt. A grant of another
// order than the tag's is burnt, too, and the tag is dropped; a late grant is
// only burnt.
func TestOrderNeverChanges(t *testing.T) {
	for known, other := range map[store.Order]store.Order{store.Trend: store.Strict, store.Strict: store.Trend} {
		h := order(10)
		h.order = known
		h.request("order", 10)
		h.grantAll()
		r := h.request("order", 500)
		l := h.latest()
		for _, none := range []store.Order{"", "other"} {
			h.order = none
			if v := h.grantTo(l.Seq, h.reserve(500)); v != (allocator.Verdict{}) {
				t.Errorf("a %q grant for a %q tag: %+v, want it burnt", none, known, v)
			}
		}
		h.order = other
		if v := h.grantTo(l.Seq-1, h.reserve(500)); v != (allocator.Verdict{}) {
			t.Errorf("a late grant of another order: %+v, want it burnt", v)
		}
		r.wantNone(t)
		if !h.UnderWay("order", l.Seq) {
			t.Error("the load is no longer under way")
		}
		if v := h.grantTo(l.Seq, h.reserve(500)); v.Outcome != allocator.OtherOrder || h.Tags() != 0 || !errors.Is(r.err, allocator.ErrDropped) {
			t.Errorf("a %q grant for a %q tag: %+v, %d tags, %v", other, known, v, h.Tags(), r.err)
		}
		if r = h.request("order", 1); h.grantAll() == 0 || r.answered != 1 || r.err != nil {
			t.Errorf("it is not learned again: %v", r.err)
		}
	}
}

// TestRefusedTrendTag: requests that the buffer cannot answer get the error,
// also in the next second, and the others are answered. ErrNoTag is no
// exception: a row that was deleted by hand ends with the buffer.
func TestRefusedTrendTag(t *testing.T) {
	for _, refusal := range []error{store.ErrExhausted, store.ErrNoTag} {
		h := order(10)
		h.request("order", 1)
		h.grantAll()
		batch := h.request("order", 100)
		l := h.latest()
		h.Refuse("order", l.Seq+1, refusal) // another load's
		batch.wantNone(t)
		h.Refuse("order", l.Seq, refusal)
		batch.wantErr(t, refusal)
		h.asked = nil
		h.request("order", 100).wantErr(t, refusal)
		h.request("order", 1).want(t, seg(2, 3)) // from the buffer
		if len(h.asked) != 0 {
			t.Fatalf("asked for %+v at once after a refusal", h.asked)
		}
		h.now += allocator.DefaultReAsk
		r := h.request("order", 10)
		h.grantAll() // the row is back
		if r.answered != 1 || r.err != nil {
			t.Errorf("when the tag is back: answered %d times, %v", r.answered, r.err)
		}
	}
}
