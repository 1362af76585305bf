package allocator_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// grantUnder grants a segment that was reserved under a decision with that floor
// to a load.
func (h *harness) grantUnder(floor int64, seq uint64, s store.Segment) allocator.Verdict {
	defer h.drain()
	h.asked = nil
	return h.Answer("order", seq, allocator.Answer{
		Segment: s, Step: h.step, Order: h.order, Line: store.Line{Floor: floor, Sequence: uint64(s.End)}, Loader: "loader",
	})
}

// learn learns a decision, as the caller of Answer does before a grant.
func (h *harness) learn(floor int64) bool {
	defer h.drain()
	return h.Learn(floor)
}

// raised returns a harness that has used some of [1, 101), under floor 1.
func raised(order store.Order) *harness {
	h := newHarness(allocator.Config{})
	h.step, h.order = 100, order
	h.learn(1)
	h.request("order", 5)
	h.grantUnder(1, h.latest().Seq, seg(1, 101))
	return h
}

// TestDecisionVoidsBuffers: once a decision was learned, nothing that was granted
// before it is handed out. Parked requests and the next ones get their IDs from
// the next grant. The tag keeps its highest number, and its figures.
func TestDecisionVoidsBuffers(t *testing.T) {
	h := raised(store.Trend)
	parked := h.request("order", 500)
	old := h.latest()
	if h.learn(1) || !h.learn(1000) {
		t.Fatal("the first floor again is no news, a higher one is")
	}
	if l := h.latest(); l.Seq == old.Seq || l.Want != 500 || l.First || l.Next != 101 {
		t.Errorf("asked for %+v, want a new load of a tag that was granted up to 101, for the same request", l)
	}
	next := h.request("order", 1)
	parked.wantNone(t)
	next.wantNone(t)
	f := h.Figures()[0]
	if f.High != 101 || f.Left != 0 || f.Total != 5 || f.Granted != 100 || f.Order != store.Trend {
		t.Errorf("figures: %+v", f)
	}
	if h.Burnt() != 95 {
		t.Errorf("%d IDs burnt, want the 95 that were left", h.Burnt())
	}
	h.grantUnder(1000, h.latest().Seq, seg(1000, 1600))
	parked.want(t, seg(1000, 1500))
	next.want(t, seg(1500, 1501))
}

// TestGrantFromBeforeDecision: a grant that arrives late is burnt. One that
// answers a load of after the decision proves that the register predates it.
func TestGrantFromBeforeDecision(t *testing.T) {
	for _, order := range []store.Order{store.Trend, store.Strict} {
		h := raised(order)
		r := h.request("order", 500)
		old := h.latest().Seq
		h.learn(1000)
		now := h.latest().Seq
		if v := h.grantUnder(1, old, seg(101, 601)); v != (allocator.Verdict{}) {
			t.Errorf("%s: late: %+v, want it burnt", order, v)
		}
		want := allocator.Verdict{Outcome: allocator.Below, Above: 101, By: "loader", Sequence: 101, FirstBelow: true}
		if v := h.grantUnder(1, now, seg(101, 601)); v != want {
			t.Errorf("%s: asked for after the decision: %+v, want %+v", order, v, want)
		}
		r.wantNone(t)
		if v := h.grantUnder(1000, h.latest().Seq, seg(1000, 1500)); v.Outcome != allocator.Used {
			t.Fatalf("%s: of the decision: %+v", order, v)
		}
		r.want(t, seg(1000, 1500))
		if v := h.grantUnder(1, now, seg(2000, 2500)); v != (allocator.Verdict{}) {
			t.Errorf("%s: late, and higher: %+v, want it burnt", order, v)
		}
	}
}

// TestGrantFromBeforeDecisionForNewTag: the same for a tag without any grant.
func TestGrantFromBeforeDecisionForNewTag(t *testing.T) {
	h := newHarness(allocator.Config{})
	h.learn(1000)
	r := h.request("order", 1)
	if v := h.grantUnder(1, h.latest().Seq, seg(1, 101)); v != (allocator.Verdict{Outcome: allocator.Below, FirstBelow: true}) {
		t.Errorf("%+v", v)
	}
	h.order = store.Trend
	h.grantUnder(1000, h.latest().Seq, seg(1000, 1100))
	r.want(t, seg(1000, 1001))
}

// TestGrantsOfOlderLoaders: a loader of version 0.2.0 sends no floor. Its grant
// counts if it was requested after the decision was learned.
func TestGrantsOfOlderLoaders(t *testing.T) {
	for _, order := range []store.Order{store.Trend, store.Strict} {
		h := raised(order)
		r := h.request("order", 500)
		old := h.latest().Seq
		h.learn(1000)
		now := h.latest().Seq
		if v := h.grantUnder(0, old, seg(101, 601)); v != (allocator.Verdict{}) {
			t.Errorf("%s: requested before: %+v, want it burnt", order, v)
		}
		r.wantNone(t)
		if v := h.grantUnder(0, now, seg(1000, 1500)); v.Outcome != allocator.Used {
			t.Errorf("%s: requested after: %+v", order, v)
		}
		r.want(t, seg(1000, 1500))
		if v := h.grantUnder(0, old, seg(2000, 2500)); v != (allocator.Verdict{}) {
			t.Errorf("%s: requested before, and higher: %+v, want it burnt", order, v)
		}
	}
}

// TestUnlearnedGrantIsBurnt: a grant of a decision that was not learned first
// would stand beside segments from before.
func TestUnlearnedGrantIsBurnt(t *testing.T) {
	h := raised(store.Trend)
	if v := h.grantUnder(1000, 0, seg(1000, 1500)); v.Outcome != allocator.Burnt {
		t.Errorf("%+v, want it burnt", v)
	}
}

// TestStrictAfterDecision: a tag that had counted as trend may be strict after a
// restore. Its parked requests get no error. The first grant serves those that
// were there when its load was sent, and nothing is kept for others.
func TestStrictAfterDecision(t *testing.T) {
	h := raised(store.Trend)
	r := h.request("order", 500)
	h.learn(1000)
	h.order = store.Strict
	later := h.request("order", 1)
	h.grantUnder(1000, h.latest().Seq, seg(1000, 1600))
	r.want(t, seg(1000, 1500))
	later.wantNone(t)
	h.grantUnder(1000, h.latest().Seq, seg(2000, 2001))
	later.want(t, seg(2000, 2001))
	if f := h.Figures()[0]; f.Left != 0 || f.Order != store.Strict {
		t.Errorf("a strict tag with a buffer: %+v", f)
	}
}

// TestBuffersFillAfterDecision: after a decision, tags that had a buffer load, and
// those with requests first. Voided tags are no new names, of which there may be
// few.
func TestBuffersFillAfterDecision(t *testing.T) {
	h := newHarness(allocator.Config{MaxUnknown: 1})
	h.step = 100
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		h.request(name, 1)
		h.grantAll()
	}
	h.order = store.Strict
	h.request("strict", 1)
	h.grantAll()
	h.order, h.held = store.Trend, true
	h.learn(1000)
	r := h.request("c", 1)
	h.sendOne() // one place is kept for buffers
	h.sendOne()
	if h.asked[0].Tag != "c" && h.asked[1].Tag != "c" {
		t.Errorf("asked for %+v first, want the tag with a request", h.asked)
	}
	h.request("new", 1)
	for h.sendOne() {
	}
	loads := make(map[string]int)
	for _, l := range h.asked {
		loads[l.Tag]++
	}
	h.grantAll()
	for _, f := range h.Figures() {
		if isTrend := f.Order == store.Trend; isTrend && f.Left < 99 || isTrend != (loads[f.Tag] == 1) {
			t.Errorf("%+v after %d loads", f, loads[f.Tag])
		}
	}
	if h.Tags() != len(names)+2 || r.answered != 1 || r.err != nil {
		t.Errorf("%d tags, %+v", h.Tags(), r)
	}
}

// TestFillForNoRequest: a load that fills the buffer of a voided tag serves no
// request that came after it was sent, not even if it is sent again, because the
// tag may be strict by now.
func TestFillForNoRequest(t *testing.T) {
	h := raised(store.Trend)
	h.learn(1000)
	fill := h.latest()
	if fill.Want != 0 || fill.Step < 100 {
		t.Fatalf("asked for %+v, want a load that fills the buffer", fill)
	}
	h.now += allocator.DefaultReAsk
	h.Tick()
	r := h.request("order", 1)
	mine := h.latest()
	if mine.Seq == fill.Seq || mine.Want != 1 {
		t.Fatalf("asked for %+v, want another load", mine)
	}
	h.order = store.Strict
	h.grantUnder(1000, fill.Seq, seg(1000, 1100)) // reserved before the request
	r.wantNone(t)
	h.grantUnder(1000, mine.Seq, seg(1100, 1101))
	r.want(t, seg(1100, 1101))
}

// TestLateGrantAfterDecision: while loaders take longer than requests wait, each
// grant answers a load that was given up. A voided tag that is trend still uses
// it, and one that is strict does not.
func TestLateGrantAfterDecision(t *testing.T) {
	for _, order := range []store.Order{store.Trend, store.Strict} {
		h := raised(store.Trend)
		h.learn(1000)
		h.request("order", 1)
		slow := h.latest().Seq
		h.now += allocator.DefaultWait
		h.Tick()
		r := h.request("order", 1)
		h.order = order
		v := h.grantUnder(1000, slow, seg(1000, 1100))
		if used := v.Outcome == allocator.Used; used != (order == store.Trend) || r.answered == 1 != used {
			t.Errorf("%s: %+v, request answered %d times", order, v, r.answered)
		}
	}
}

// TestRequestsBeforeVoidedBuffers: if it takes minutes to fill the buffers of many
// voided tags, a strict tag does not wait for that.
func TestRequestsBeforeVoidedBuffers(t *testing.T) {
	h := newHarness(allocator.Config{})
	for _, name := range []string{"a", "b", "c"} {
		h.request(name, 1)
		h.grantAll()
	}
	h.order = store.Strict
	h.request("strict", 1)
	h.grantAll()
	h.held = true
	h.learn(1000)
	h.now += 10 * time.Minute
	h.request("strict", 1)
	h.sendOne() // one place is kept for buffers
	h.sendOne()
	if len(h.asked) != 2 || h.asked[1].Tag != "strict" {
		t.Errorf("sent %+v, want the load for the request to be the second", h.asked)
	}
}

// TestVoidIsNoProof: while one tag is being voided, the grant of another one is no
// proof that the store regressed.
func TestVoidIsNoProof(t *testing.T) {
	during := func() {}
	a := allocator.New(allocator.Config{Clock: func() time.Duration { during(); return 0 }})
	a.Learn(1)
	verdicts := make(chan allocator.Verdict, 2)
	seqs := make(map[string]uint64)
	for _, name := range []string{"a", "b"} {
		_, _ = a.TakeOrPark(allocator.Request{Tag: name, N: 1, From: name})
		l, _ := a.Send()
		a.Answer(name, l.Seq, allocator.Answer{Segment: seg(1, 2), Order: store.Trend, Line: store.Line{Floor: 1}})
		l, _ = a.Send()
		seqs[name] = l.Seq
	}
	during = sync.OnceFunc(func() {
		during = func() {}
		for name, seq := range seqs {
			go func() {
				verdicts <- a.Answer(name, seq, allocator.Answer{Segment: seg(2, 101), Order: store.Trend, Line: store.Line{Floor: 1}})
			}()
		}
		verdicts <- <-verdicts // of the one that is not being voided
	})
	a.Void()
	for range seqs {
		if v := <-verdicts; v.Outcome != allocator.Burnt {
			t.Errorf("%+v, want it burnt", v)
		}
	}
}

// TestVoid: after a decision about another installation, nothing that was
// granted, or requested, before is handed out. Its floor is not that of this
// one's loaders.
func TestVoid(t *testing.T) {
	h := raised(store.Trend)
	r := h.request("order", 500)
	old := h.latest().Seq
	h.Void()
	h.drain()
	r.wantNone(t)
	if v := h.grantUnder(1, h.latest().Seq, seg(101, 601)); v.Outcome != allocator.Used {
		t.Errorf("%+v", v)
	}
	r.want(t, seg(101, 601))
	if v := h.grantUnder(1, old, seg(1000, 1500)); v != (allocator.Verdict{}) {
		t.Errorf("requested before: %+v, want it burnt", v)
	}
}

// TestNoTakeAfterLearn: requests that run while a decision is learned get
// nothing from before once Learn has returned.
func TestNoTakeAfterLearn(t *testing.T) {
	const callers, size = 4, 1 << 40
	for range 20 {
		h := newHarness(allocator.Config{MaxStep: size})
		h.step, h.lazy = size, true
		a := h.Allocator
		a.Learn(1)
		_, _ = a.TakeOrPark(allocator.Request{Tag: "order", N: 1, From: &outcome{}})
		l, _ := a.Send()
		a.Answer("order", l.Seq, allocator.Answer{Segment: seg(1, size), Step: size, Order: store.Trend, Line: store.Line{Floor: 1}})
		var learned atomic.Bool
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for {
					after := learned.Load()
					ids, ok := a.Take("order", 1)
					if after && ok {
						t.Errorf("took %v after the decision was learned", ids)
					}
					if after {
						return
					}
				}
			})
		}
		a.Learn(1000)
		learned.Store(true)
		wg.Wait()
	}
}
