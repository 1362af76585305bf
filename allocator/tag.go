package allocator

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/idworker/idworker/store"
)

// tag holds the buffers and the load state of one tag. One that nobody has asked for has none,
// see [entry]: there may be a million of those.
type tag struct {
	name string
	cur  *atomic.Pointer[segment] // of its entry; nil until the first grant; replaced under mu

	mu     sync.Mutex
	ready  []store.Segment // ascending, all above cur
	high   int64           // end of the highest segment ever granted, used or not
	parked []waiter        // in order of deadlines, and so of arrival at the first worker
	demand int64           // IDs wanted by parked

	wentBack bool // a grant was Below since one was last used
	dropped  bool // it is not the tag of that name any more
	fresh    bool // it came into being by Config.FirstUse, and was never granted

	lookedAt int64 // how many IDs had been handed out when it was looked at for idleness; 0: not yet

	term  uint64 // of what is in memory or being loaded; 0: none
	since uint64 // the number before that of its first load; 0 if the tag never had a term

	configured int64 // the configured step; 0 if the tag was removed
	step       int64 // the grown step; 0 before the first load
	load       loadState
	meter      meter
	visitAt    time.Duration // when Tick visits the tag next; 0: never
}

// waiter is a parked request.
type waiter struct {
	n        int64
	deadline time.Duration
	answer   Answer
}

// reply is an answer that is given once the lock is released.
type reply struct {
	answer Answer
	ids    []store.Segment
	err    error
}

// The methods below need mu.

// available is how many IDs are in memory. A concurrent Take may lower it at any time.
func (t *tag) available() int64 { return t.cur.Load().left() + t.backlog() }

// backlog is how many IDs are ready behind the current segment.
func (t *tag) backlog() (n int64) {
	for _, s := range t.ready {
		n += s.Len()
	}
	return n
}

// lacksIDs reports whether parked requests want more than is in memory.
func (t *tag) lacksIDs() bool { return t.demand > t.available() }

// takeFromAll takes n IDs from the current and the ready segments, or none if there are
// fewer.
func (t *tag) takeFromAll(n int64) []store.Segment {
	cur := t.cur.Load()
	if cur == nil {
		return nil
	}
	var ids []store.Segment
	for backlog := t.backlog(); ; { // repeated while Takes interfere
		left := cur.left()
		if n-left > backlog {
			return nil
		}
		k := min(n, left)
		if k == 0 {
			break
		}
		if first, _, ok := cur.take(k); ok {
			ids = appendSegment(ids, store.Segment{First: first, End: first + k})
			n -= k
			break
		}
	}
	for n > 0 {
		k := min(n, t.ready[0].Len())
		head, _ := t.ready[0].Cut(k)
		ids = appendSegment(ids, head)
		n -= k
		t.advanceSegment(k)
	}
	return ids
}

// appendSegment appends s; if it directly follows the last segment, the two become one.
func appendSegment(ids []store.Segment, s store.Segment) []store.Segment {
	if last := len(ids) - 1; last >= 0 && ids[last].End == s.First {
		ids[last].End = s.End
		return ids
	}
	return append(ids, s)
}

// advanceSegment makes the first ready segment the current one, with its first used IDs
// already taken. The present one must be at its end.
func (t *tag) advanceSegment(used int64) {
	if old := t.cur.Load(); old != nil {
		t.meter.spent += old.Len()
	}
	t.cur.Store(newSegment(t.ready[0], used, t.term))
	if t.ready = t.ready[1:]; len(t.ready) == 0 {
		t.ready = nil
	}
}

// installSegment adds a segment to those in memory, and reports whether there was room
// for it. There is for one that was asked for.
func (t *tag) installSegment(s store.Segment, asked bool) bool {
	if t.cur.Load().left() == 0 && len(t.ready) > 0 {
		t.advanceSegment(0)
	}
	if len(t.ready) > 0 && !asked && !t.lacksIDs() {
		return false
	}
	t.ready = append(t.ready, s)
	if t.cur.Load().left() == 0 {
		t.advanceSegment(0)
	}
	return true
}

// serveParked answers the parked requests for which there are IDs, in order.
func (t *tag) serveParked() (replies []reply) {
	for len(t.parked) > 0 {
		w := t.parked[0]
		ids := t.takeFromAll(w.n)
		if ids == nil {
			break
		}
		t.unparkFirst()
		replies = append(replies, reply{w.answer, ids, nil})
	}
	return replies
}

// expireParked answers the parked requests whose deadline has passed.
func (t *tag) expireParked(now time.Duration) (replies []reply) {
	for len(t.parked) > 0 && t.parked[0].deadline <= now {
		replies = append(replies, reply{t.unparkFirst().answer, nil, ErrNoSegment})
	}
	return replies
}

// failParked answers all parked requests with err.
func (t *tag) failParked(err error) (replies []reply) {
	for len(t.parked) > 0 {
		replies = append(replies, reply{t.unparkFirst().answer, nil, err})
	}
	return replies
}

// unparkFirst removes the first parked request.
func (t *tag) unparkFirst() waiter {
	w := t.parked[0]
	t.parked[0] = waiter{} // lets go of the answer
	t.demand -= w.n
	if t.parked = t.parked[1:]; len(t.parked) == 0 {
		t.parked = nil
	}
	return w
}

// setConfigured sets the configured step. It applies from the next load on. Growth starts
// again from a lowered step, and from a raised one unless the step has already grown
// beyond it.
func (t *tag) setConfigured(step int64) {
	switch {
	case step == t.configured:
		return
	case step < t.configured:
		t.step = min(t.step, step)
	case t.step > 0:
		t.step = max(t.step, step)
	}
	t.configured = step
}

// forget drops everything but high, which still keeps out lower grants should the tag
// come back. Parked requests get err.
func (t *tag) forget(err error) []reply {
	t.configured, t.step = 0, 0
	t.dropBuffers()
	t.meter = meter{}
	return t.failParked(err)
}
