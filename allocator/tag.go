package allocator

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/idworker/idworker/internal/priority"
	"github.com/idworker/idworker/store"
)

// Take returns n IDs of the tag if the current segment has them, as it usually
// does; a strict tag has none. Otherwise ok is false, nothing has happened, and
// the request goes to TakeOrPark.
func (a *Allocator) Take(name string, n int64) (ids store.Segment, ok bool) {
	t, ok := a.tags.Load(name)
	if !ok {
		return ids, false
	}
	first, crossed, ok := t.cur.Load().take(n)
	if crossed {
		a.update(t, func(time.Duration) {}) // a load may have become due
	}
	return store.Segment{First: first, End: first + n}, ok
}

// take moves the cursor over n IDs, if the segment has that many left. crossed
// reports whether this call moved it over the mark, so that the caller has to
// check the tag.
func (s *segment) take(n int64) (first int64, crossed, ok bool) {
	for {
		used := s.used.Load()
		// Compared as unsigned numbers, so that an n below 1 takes nothing
		// either.
		if uint64(n-1) >= uint64(s.Len()-used) {
			return 0, false, false
		}
		if s.used.CompareAndSwap(used, used+n) {
			// Read after the cursor has moved: either this call reads a mark
			// that was set concurrently, or rearm reads the cursor.
			mark := s.mark.Load()
			return s.First + used, used < mark && used+n >= mark, true
		}
	}
}

// segment is a tag's current segment with the cursor that hands out its IDs.
type segment struct {
	store.Segment
	mark atomic.Int64 // used IDs at which the tag is checked next
	used atomic.Int64
}

// empty is the current segment of tags without a segment.
var empty segment

// checksPerSegment is how often a tag is checked while it uses up a segment:
// once or twice a minute if its rate has lasted. If the buffer is smaller than
// the segment was, the tag is checked each time that a fortieth of the buffer is
// used. Otherwise a segment from busier times could end before the next check.
const checksPerSegment = 40

// newSegment returns s with its first used IDs already taken.
func newSegment(s store.Segment, used int64) *segment {
	seg := &segment{Segment: s}
	seg.used.Store(used)
	seg.rearm(seg.left())
	return seg
}

// rearm sets the mark ahead of the cursor, if so many IDs are buffered. Its
// caller checks the tag afterwards.
func (s *segment) rearm(buffered int64) {
	every := max(1, min(s.Len(), buffered)/checksPerSegment)
	for used := s.used.Load(); s.mark.Load() <= used; used = s.used.Load() {
		s.mark.Store(used + every)
	}
}

// left is how many IDs are left.
func (s *segment) left() int64 { return s.Len() - s.used.Load() }

// tag has a tag's buffer and load state.
type tag struct {
	name string
	// Empty until the first grant of a trend tag; replaced under mu.
	cur atomic.Pointer[segment]

	mu    sync.Mutex
	busy  *activity // nil at rest; see lock
	meter meter
	use   *use // nil before the second grant

	// "" if the tag is unknown: it is new, or its segments were voided.
	order store.Order
	// End of the highest segment that ended a load, used or not; 0 if the tag is
	// new. The next two are the loader that granted it, and the sequence of its
	// write.
	high       int64
	by         unique.Handle[string]
	sequence   uint64
	configured int64 // the configured step of a tag that has a buffer, or had one until it was voided; else 0
	step       int64 // of the latest load; 0 unless it is a trend tag

	idleTotal int64 // the IDs that had been handed out at the latest DropIdle
	idleCalls int8  // calls of DropIdle since the latest request; -1: none
	dropped   bool  // it is no longer held
	regressed bool  // a grant was Below since the last used grant
}

// activity is the part of a tag that exists while a segment is ready, a request
// parked or a load under way.
type activity struct {
	place    priority.Place[*tag] // of a load that waits
	visit    priority.Place[*tag] // of the time of Tick's visit
	position position

	ready   []store.Segment // ascending, all above cur
	parked  []waiter        // in order of arrival, and so of deadlines
	demand  int64           // IDs wanted by parked
	load    load
	replies []Reply // to be sent once the tag is unlocked
}

var activityPool = sync.Pool{New: func() any { return new(activity) }}

// lock locks the tag, which is busy until it is unlocked.
func (t *tag) lock() {
	t.mu.Lock()
	if t.busy == nil {
		t.busy = activityPool.Get().(*activity)
	}
}

// unlock unlocks the tag. At rest, it gives its activity back.
func (t *tag) unlock() {
	b := t.busy
	l := &b.load
	if len(b.ready) == 0 && len(b.parked) == 0 && l.state == idle && l.refusals == 0 && l.rests == 0 && b.position == (position{}) {
		*b = activity{}
		t.busy = nil
		activityPool.Put(b)
	}
	t.mu.Unlock()
}

// forever is after all deadlines.
const forever = math.MaxInt64

// waiter is a parked request.
type waiter struct {
	Request

	deadline time.Duration
	load     uint64 // the strict load that serves it; 0: none yet
}

// The methods below need mu.

// isNew reports whether the tag was never granted here.
func (t *tag) isNew() bool { return t.high == 0 }

// grantedBy names the loader that granted the highest segment, if there is one.
func (t *tag) grantedBy() string {
	if t.isNew() {
		return ""
	}
	return t.by.Value()
}

// available is the number of buffered IDs. A concurrent Take may lower it at
// any time.
func (t *tag) available() int64 { return t.cur.Load().left() + t.backlog() }

// backlog is how many IDs are ready behind the current segment.
func (t *tag) backlog() (n int64) {
	for _, s := range t.busy.ready {
		n += s.Len()
	}
	return n
}

// underfilled reports whether parked requests want more IDs than are buffered.
func (t *tag) underfilled() bool { return t.busy.demand > t.available() }

// takeFromAll takes n IDs from the current and the ready segments, or none if
// there are fewer.
func (t *tag) takeFromAll(n int64) []store.Segment {
	var ids []store.Segment
	// Repeated while Takes interfere.
	for cur, backlog, done := t.cur.Load(), t.backlog(), false; !done; {
		k := min(n, cur.left())
		if n-k > backlog {
			return nil
		}
		first, _, ok := cur.take(k)
		if ok {
			ids = appendSegment(ids, store.Segment{First: first, End: first + k})
			n -= k
		}
		done = ok || k == 0
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

// appendSegment appends s, or extends the last segment if s directly follows
// it.
func appendSegment(ids []store.Segment, s store.Segment) []store.Segment {
	if last := len(ids) - 1; last >= 0 && ids[last].End == s.First {
		ids[last].End = s.End
		return ids
	}
	return append(ids, s)
}

// advanceSegment makes the first ready segment the current segment, with its
// first used IDs already taken. The present segment must be at its end.
func (t *tag) advanceSegment(used int64) {
	t.meter.spent += t.cur.Load().Len()
	t.cur.Store(newSegment(t.busy.ready[0], used))
	if t.busy.ready = t.busy.ready[1:]; len(t.busy.ready) == 0 {
		t.busy.ready = nil
	}
}

// installSegment adds a segment to the buffer, and reports whether there was
// room for it. There always is for a segment that is wanted.
func (t *tag) installSegment(s store.Segment, wanted bool) bool {
	ready, cur := len(t.busy.ready), t.cur.Load()
	room := wanted || t.underfilled() || ready == 0 || ready == 1 && cur.left() == 0
	if room {
		t.busy.ready = append(t.busy.ready, s)
	}
	if cur.left() == 0 {
		t.advanceSegment(0)
	}
	return room
}

// park appends a request to the parked requests.
func (t *tag) park(w waiter) {
	t.busy.demand += w.N
	t.busy.parked = append(t.busy.parked, w)
}

// serveParked answers the parked requests for which there are IDs, in order.
func (t *tag) serveParked() {
	for len(t.busy.parked) > 0 {
		ids := t.takeFromAll(t.busy.parked[0].N)
		if ids == nil {
			return
		}
		t.answerFirst(ids, nil)
	}
}

// failParked answers the parked requests whose deadline is not after until with
// err.
func (t *tag) failParked(until time.Duration, err error) {
	for len(t.busy.parked) > 0 && t.busy.parked[0].deadline <= until {
		t.answerFirst(nil, err)
	}
}

// answerFirst answers the first parked request.
func (t *tag) answerFirst(ids []store.Segment, err error) {
	t.reply(t.busy.parked[0], ids, err)
	t.unpark(0)
}

func (t *tag) reply(w waiter, ids []store.Segment, err error) {
	t.busy.replies = append(t.busy.replies, Reply{w.From, ids, err})
}

// unpark removes a parked request.
func (t *tag) unpark(i int) {
	t.busy.demand -= t.busy.parked[i].N
	// Usually none: most leave in order.
	copy(t.busy.parked[1:], t.busy.parked[:i])
	t.busy.parked[0] = waiter{}
	if t.busy.parked = t.busy.parked[1:]; len(t.busy.parked) == 0 {
		t.busy.parked = nil
	}
}

// withdraw drops a parked request.
func (t *tag) withdraw(from any) {
	i := slices.IndexFunc(t.busy.parked, func(w waiter) bool { return w.From == from })
	if i >= 0 {
		t.unpark(i)
		t.serveParked()
	}
}
