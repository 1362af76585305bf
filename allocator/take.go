package allocator

import (
	"sync/atomic"
	"time"

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

// loadAt is the divisor for the part of a segment that may be used before the
// next segment is requested at the latest: a tenth, as in Leaf.
// checksPerSegment is the number of checks whether that must be sooner. With a
// suitable step, that is twice a minute.
const (
	loadAt           = 10
	checksPerSegment = 40
)

// newSegment returns s with its first used IDs already taken.
func newSegment(s store.Segment, used int64) *segment {
	seg := &segment{Segment: s}
	seg.used.Store(used)
	seg.rearm()
	return seg
}

// rearm sets the mark ahead of the cursor. Its caller checks the tag
// afterwards.
func (s *segment) rearm() {
	every := max(1, s.Len()/checksPerSegment)
	for used := s.used.Load(); s.mark.Load() <= used; used = s.used.Load() {
		s.mark.Store((used/every + 1) * every)
	}
}

// left is how many IDs are left.
func (s *segment) left() int64 { return s.Len() - s.used.Load() }

// low reports whether it is time to request another segment, even if the buffer
// lasts. After a request for a single ID, a tag needs no second segment, if its
// step is small.
func (s *segment) low() bool { return s.used.Load() >= max(min(2, s.Len()), s.Len()/loadAt) }
