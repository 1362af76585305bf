package allocator

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/idworker/idworker/store"
)

// tag is the buffers and the load state of one tag. An idle one costs its size
// and its name, nothing else: there may be 100,000 that are never asked for.
type tag struct {
	name string
	cur  atomic.Pointer[segment] // nil until the first grant; replaced under mu

	mu     sync.Mutex
	ready  []store.Segment // ascending, all above cur
	high   int64           // end of the highest segment ever granted
	parked []waiter        // in the order of arrival, which is that of deadlines
	demand int64           // IDs wanted by parked

	configured int64 // the configured step; 0 if the tag was removed
	step       int64 // the grown step; 0 before the first load

	loadSeq   uint64        // the load that is asked for; 0: none
	loadTry   int           // how often it was asked for
	askedAt   time.Duration // when last
	loadedAt  time.Duration // when the latest load was first asked for
	refusal   error         // why the store refused the latest load
	refusedAt time.Duration

	watched bool // is in the busy set
	meter   meter
}

// waiter is a parked request.
type waiter struct {
	n        int64
	deadline time.Duration
	answer   Answer
}

// reply is an answer to be given once the lock is released.
type reply struct {
	answer Answer
	ids    []store.Segment
	err    error
}

// The methods below need mu.

// available is how many IDs are in memory. Takes may lower it meanwhile.
func (t *tag) available() int64 { return t.cur.Load().left() + t.backlog() }

// backlog is how many IDs are ready behind the current segment.
func (t *tag) backlog() (n int64) {
	for _, s := range t.ready {
		n += s.Len()
	}
	return n
}

// short reports whether parked requests want more than is in memory.
func (t *tag) short() bool { return t.demand > t.available() }

// draw takes n IDs from the current and the ready segments, or none if there are
// fewer.
func (t *tag) draw(n int64) []store.Segment {
	cur := t.cur.Load()
	if cur == nil {
		return nil
	}
	var ids []store.Segment
	for backlog := t.backlog(); ; { // until no Take comes in between
		left := cur.left()
		if n-left > backlog {
			return nil
		}
		k := min(n, left)
		if k == 0 {
			break
		}
		if first, _, ok := cur.take(k); ok {
			ids = append(ids, store.Segment{First: first, End: first + k})
			n -= k
			break
		}
	}
	for n > 0 {
		k := min(n, t.ready[0].Len())
		head, _ := t.ready[0].Cut(k)
		ids = append(ids, head)
		n -= k
		t.advance(k)
	}
	return ids
}

// advance makes the first ready segment the current one, with its first used IDs
// taken. The current one must be at its end.
func (t *tag) advance(used int64) {
	if old := t.cur.Load(); old != nil {
		t.meter.spent += old.Len()
	}
	t.cur.Store(newSegment(t.ready[0], used))
	if t.ready = t.ready[1:]; len(t.ready) == 0 {
		t.ready = nil
	}
}

// install adds a segment, and reports whether there was use for it.
func (t *tag) install(s store.Segment) bool {
	if t.cur.Load().left() == 0 && len(t.ready) > 0 {
		t.advance(0)
	}
	if len(t.ready) > 0 && !t.short() {
		return false
	}
	t.high = s.End
	t.ready = append(t.ready, s)
	if t.cur.Load().left() == 0 {
		t.advance(0)
	}
	return true
}

// serve answers the parked requests for which there are IDs, in order.
func (t *tag) serve() (replies []reply) {
	for len(t.parked) > 0 {
		w := t.parked[0]
		ids := t.draw(w.n)
		if ids == nil {
			break
		}
		t.unpark()
		replies = append(replies, reply{w.answer, ids, nil})
	}
	return replies
}

// expire answers the parked requests whose deadline is past.
func (t *tag) expire(now time.Duration) (replies []reply) {
	for len(t.parked) > 0 && t.parked[0].deadline <= now {
		replies = append(replies, reply{t.unpark().answer, nil, ErrNoSegment})
	}
	return replies
}

// fail answers all parked requests with err.
func (t *tag) fail(err error) (replies []reply) {
	for len(t.parked) > 0 {
		replies = append(replies, reply{t.unpark().answer, nil, err})
	}
	return replies
}

// unpark removes the first parked request.
func (t *tag) unpark() waiter {
	w := t.parked[0]
	t.parked[0] = waiter{} // lets go of the answer
	t.demand -= w.n
	if t.parked = t.parked[1:]; len(t.parked) == 0 {
		t.parked = nil
	}
	return w
}

// configure sets the configured step. A raised or lowered one counts from the
// next load on: growth starts from it again, but a raised one does not take back
// growth beyond it.
func (t *tag) configure(step int64) {
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

// remove forgets everything but high, which still bars lower grants should the
// tag come back.
func (t *tag) remove() []reply {
	t.configured, t.step = 0, 0
	t.cur.Store(nil)
	t.ready = nil
	t.loadSeq, t.refusal = 0, nil
	t.meter = meter{}
	return t.fail(store.ErrNoTag)
}
