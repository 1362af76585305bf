package allocator

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idworker/idworker/store"
)

// tag holds the buffers and the load state of one tag in memory.
type tag struct {
	name string
	cur  atomic.Pointer[segment] // nil until the first grant of a trend tag; replaced under mu

	mu    sync.Mutex
	busy  *busy // nil at rest; see lock
	meter meter
	use   *use // nil before the second grant

	order      store.Order   // "" if the tag is unknown, because it was never granted
	high       int64         // end of the highest segment that ended a load, used or not
	configured int64         // the configured step of a trend tag
	step       int64         // its grown step; 0 unless it is a trend tag
	begunAt    time.Duration // when the latest load began

	idleTotal int64 // the IDs that had been handed out at the latest DropIdle
	idleCalls int8  // calls of DropIdle since the latest request; -1: not one
	dropped   bool  // it has left memory
	wentBack  bool  // a grant was Below since one was last used
}

// busy is the part of a tag that exists while a segment is ready, a request parked or
// a load under way.
type busy struct {
	ready  []store.Segment // ascending, all above cur
	parked []waiter        // in order of arrival, and so of deadlines
	demand int64           // IDs wanted by parked
	load   loadState
	until  time.Duration // when Tick visits the tag next; 0: never
}

var busyPool = sync.Pool{New: func() any { return new(busy) }}

// lock locks the tag, which is busy until it is unlocked.
func (t *tag) lock() {
	t.mu.Lock()
	if t.busy == nil {
		t.busy = busyPool.Get().(*busy)
	}
}

func (t *tag) unlock() {
	if b := t.busy; b.atRest() {
		*b = busy{}
		t.busy = nil
		busyPool.Put(b)
	}
	t.mu.Unlock()
}

func (b *busy) atRest() bool {
	return len(b.ready) == 0 && len(b.parked) == 0 && b.load.atRest() && b.until == 0
}

// waiter is a parked request.
type waiter struct {
	Request

	deadline time.Duration
	load     uint64 // the strict load that it is part of; 0: none yet
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
	for _, s := range t.busy.ready {
		n += s.Len()
	}
	return n
}

// lacksIDs reports whether parked requests want more than is in memory.
func (t *tag) lacksIDs() bool { return t.busy.demand > t.available() }

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
		k := min(n, t.busy.ready[0].Len())
		head, _ := t.busy.ready[0].Cut(k)
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
	t.cur.Store(newSegment(t.busy.ready[0], used))
	if t.busy.ready = t.busy.ready[1:]; len(t.busy.ready) == 0 {
		t.busy.ready = nil
	}
}

// installSegment adds a segment to those in memory, and reports whether there was room
// for it. There is for one that was asked for.
func (t *tag) installSegment(s store.Segment, asked bool) bool {
	if t.cur.Load().left() == 0 && len(t.busy.ready) > 0 {
		t.advanceSegment(0)
	}
	if len(t.busy.ready) > 0 && !asked && !t.lacksIDs() {
		return false
	}
	t.busy.ready = append(t.busy.ready, s)
	if t.cur.Load().left() == 0 {
		t.advanceSegment(0)
	}
	return true
}

// park appends a request to the parked ones.
func (t *tag) park(w waiter) {
	t.busy.demand += w.N
	t.busy.parked = append(t.busy.parked, w)
}

// serveParked answers the parked requests for which there are IDs, in order.
func (t *tag) serveParked() (replies []reply) {
	for len(t.busy.parked) > 0 {
		w := t.busy.parked[0]
		ids := t.takeFromAll(w.N)
		if ids == nil {
			break
		}
		t.unparkFirst()
		replies = append(replies, reply{w.Answer, ids, nil})
	}
	return replies
}

// expireParked answers the parked requests whose deadline has passed.
func (t *tag) expireParked(now time.Duration) (replies []reply) {
	for len(t.busy.parked) > 0 && t.busy.parked[0].deadline <= now {
		replies = append(replies, reply{t.unparkFirst().Answer, nil, ErrNoSegment})
	}
	return replies
}

// failParked answers all parked requests with err.
func (t *tag) failParked(err error) (replies []reply) {
	for len(t.busy.parked) > 0 {
		replies = append(replies, reply{t.unparkFirst().Answer, nil, err})
	}
	return replies
}

// unparkFirst removes the first parked request.
func (t *tag) unparkFirst() waiter {
	w := t.busy.parked[0]
	t.busy.parked[0] = waiter{} // lets go of the answer
	t.busy.demand -= w.N
	t.busy.parked = t.busy.parked[1:]
	t.shrinkParked()
	return w
}

// shrinkParked releases the memory for parked requests when there are none.
func (t *tag) shrinkParked() {
	if len(t.busy.parked) == 0 {
		t.busy.parked = nil
	}
}

// dropUnwanted drops the parked requests whose callers have gone.
func (t *tag) dropUnwanted() []reply {
	t.busy.parked = slices.DeleteFunc(t.busy.parked, func(w waiter) bool {
		gone := w.Wanted != nil && !w.Wanted()
		if gone {
			t.busy.demand -= w.N
		}
		return gone
	})
	t.shrinkParked()
	return t.serveParked()
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
