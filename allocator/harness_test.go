package allocator_test

import (
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// harness drives an allocator by hand: loads queue up in asked, the clock stands
// still until it is moved, and next plays the store.
type harness struct {
	*allocator.Allocator
	now   time.Duration
	reads int // of the clock: one or two for each tag that is visited
	asked []allocator.Load
	next  int64
}

func newHarness(cfg allocator.Config) *harness {
	h := &harness{next: 1}
	cfg.Clock = func() time.Duration { h.reads++; return h.now }
	cfg.Load = func(l allocator.Load) { h.asked = append(h.asked, l) }
	h.Allocator = allocator.New(cfg)
	return h
}

// reserve returns the next n IDs of the store.
func (h *harness) reserve(n int64) store.Segment {
	s := store.Segment{First: h.next, End: h.next + n}
	h.next = s.End
	return s
}

// grantAll serves the loads that are asked for, as a loader would, until there are
// no more, and returns how many store writes that took.
func (h *harness) grantAll() (writes int) {
	for len(h.asked) > 0 {
		l := h.asked[0]
		h.asked = h.asked[1:]
		h.Grant(l.Tag, l.Seq, h.reserve(max(l.Step, l.Want)))
		writes++
	}
	return writes
}

// outcome is what a request was answered with.
type outcome struct {
	answered int
	ids      []store.Segment
	err      error
}

// request does what the worker does with a request.
func (h *harness) request(tag string, n int64) *outcome {
	o := &outcome{}
	if s, ok := h.Take(tag, n); ok {
		o.answered, o.ids = 1, []store.Segment{s}
		return o
	}
	ids, err := h.TakeOrPark(tag, n, func(ids []store.Segment, err error) {
		o.answered++
		o.ids, o.err = ids, err
	})
	if ids != nil || err != nil {
		o.answered++
		o.ids, o.err = ids, err
	}
	return o
}

// want fails the test unless the request was answered once, with these segments.
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

func seg(first, end int64) store.Segment { return store.Segment{First: first, End: end} }
