package allocator_test

import (
	"errors"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// harness drives an allocator by hand: after each call it takes the replies and
// the loads, so that replies are sent without delay and loads queue up in asked.
// The clock stands still until it is moved, and next plays the store. All tags
// have the same settings.
type harness struct {
	*allocator.Allocator

	order store.Order
	step  int64
	now   time.Duration
	reads int // of the clock: one or two for each visited tag
	asked []allocator.Load
	next  int64
	lazy  bool // replies and loads are taken later
	held  bool // loads are taken later, by send
}

func newHarness(cfg allocator.Config) *harness {
	h := &harness{next: 1, order: store.Trend, step: 10}
	cfg.Clock = func() time.Duration { h.reads++; return h.now }
	h.Allocator = allocator.New(cfg)
	return h
}

// requester is the sender of a request.
type requester interface {
	reply(ids []store.Segment, err error)
}

// drain follows each call.
func (h *harness) drain() {
	if !h.lazy {
		h.perform()
	}
}

// perform does what is to be done.
func (h *harness) perform() {
	for _, r := range h.Replies() {
		r.From.(requester).reply(r.IDs, r.Err)
	}
	for !h.held && h.sendOne() {
	}
}

// sendOne takes a load, if there is one to send.
func (h *harness) sendOne() bool {
	l, ok := h.Send()
	if ok {
		h.asked = append(h.asked, l)
	}
	return ok
}

func (h *harness) Take(tag string, n int64) (store.Segment, bool) {
	defer h.drain()
	return h.Allocator.Take(tag, n)
}

func (h *harness) Tick() {
	h.Allocator.Tick()
	h.drain()
}

func (h *harness) Refuse(tag string, seq uint64, err error) {
	h.Answer(tag, seq, allocator.Answer{Refused: err})
	h.drain()
}

func (h *harness) NotNow(tag string, seq uint64) {
	h.Answer(tag, seq, allocator.Answer{Later: allocator.TagFails})
	h.drain()
}

func (h *harness) Withdraw(tag string, from any) {
	h.Allocator.Withdraw(tag, from)
	h.drain()
}

func (h *harness) Remove(tag string) {
	h.Allocator.Remove(tag)
	h.drain()
}

func (h *harness) DropIdle() int {
	defer h.drain()
	return h.Allocator.DropIdle()
}

// reserve returns the next n IDs of the store.
func (h *harness) reserve(n int64) store.Segment {
	s := store.Segment{First: h.next, End: h.next + n}
	h.next = s.End
	return s
}

// size is how many IDs a loader reserves for a load.
func (h *harness) size(l allocator.Load) int64 {
	if l.Step == 0 && h.order == store.Trend {
		l.Step = h.step
	}
	return max(l.Step, l.Want)
}

// Grant grants a segment with the settings of the tag.
func (h *harness) Grant(tag string, seq uint64, s store.Segment) allocator.Verdict {
	defer h.drain()
	return h.Answer(tag, seq, allocator.Answer{Segment: s, Step: h.step, Order: h.order})
}

// grantAll sends and serves requested loads until there are no more, and
// returns the number of store writes.
func (h *harness) grantAll() (writes int) {
	for len(h.asked) > 0 || h.sendOne() {
		l := h.asked[0]
		h.asked = h.asked[1:]
		if h.UnderWay(l.Tag, l.Seq) {
			h.Grant(l.Tag, l.Seq, h.reserve(h.size(l)))
			writes++
		}
	}
	return writes
}

// outcome is the answer to a request.
type outcome struct {
	answered int
	ids      []store.Segment
	err      error
}

func (o *outcome) reply(ids []store.Segment, err error) {
	o.answered++
	o.ids, o.err = ids, err
}

// request handles a request as the worker does.
func (h *harness) request(tag string, n int64) *outcome {
	if s, ok := h.Take(tag, n); ok {
		return &outcome{answered: 1, ids: []store.Segment{s}}
	}
	return h.park(allocator.Request{Tag: tag, N: n})
}

// park makes a request that is parked, unless it is answered at once.
func (h *harness) park(r allocator.Request) *outcome {
	o := &outcome{}
	r.From = o
	ids, err := h.TakeOrPark(r)
	if ids != nil || err != nil {
		o.reply(ids, err)
	}
	h.drain()
	return o
}

// want fails the test unless the request was answered once, with these
// segments.
func (o *outcome) want(t *testing.T, segments ...store.Segment) {
	t.Helper()
	if o.answered != 1 || o.err != nil || len(o.ids) != len(segments) {
		t.Fatalf("answered %d times with %v, %v; want %v", o.answered, o.ids, o.err, segments)
	}
	for i, s := range segments {
		if o.ids[i] != s {
			t.Fatalf("got %v, want %v", o.ids, segments)
		}
	}
}

// wantErr fails the test unless the request was answered once, with this error.
func (o *outcome) wantErr(t *testing.T, err error) {
	t.Helper()
	if o.answered != 1 || !errors.Is(o.err, err) {
		t.Fatalf("answered %d times with %v, %v; want %v", o.answered, o.ids, o.err, err)
	}
}

// wantNone fails the test if the request was answered.
func (o *outcome) wantNone(t *testing.T) {
	t.Helper()
	if o.answered != 0 {
		t.Fatalf("answered with %v, %v; want it parked", o.ids, o.err)
	}
}

func seg(first, end int64) store.Segment { return store.Segment{First: first, End: end} }
