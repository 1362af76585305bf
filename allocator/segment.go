package allocator

import (
	"sync/atomic"

	"github.com/idworker/idworker/store"
)

// segment is a tag's current segment with the cursor that hands out its IDs.
type segment struct {
	store.Segment
	term uint64       // 0: none
	mark atomic.Int64 // used IDs at which the tag is looked at next
	used atomic.Int64
}

// loadAt is the divisor that says how much of a segment is used before the next is asked
// for at the latest: one tenth, as in Leaf. looks is how often in a segment it is looked at
// whether that has to be earlier. A segment that lasts as it should is looked at twice a
// minute. Tags that come into being when they are first asked for, of which there are many and most are
// asked for a few times, want the next segment when half of one is used.
const (
	loadAt         = 10
	loadAtFirstUse = 2

	looks = 40
)

// newSegment returns s, of a term, with its first used IDs already taken.
func newSegment(s store.Segment, used int64, term uint64) *segment {
	seg := &segment{Segment: s, term: term}
	seg.used.Store(used)
	seg.rearm()
	return seg
}

// take moves the cursor over n IDs, if the segment has that many left. crossed reports
// whether this call moved it over the mark, and nobody has seen to that yet.
func (s *segment) take(n int64) (first int64, crossed, ok bool) {
	for {
		used := s.used.Load()
		// Compared as unsigned numbers, so that an n below 1 takes nothing either.
		if uint64(n-1) >= uint64(s.Len()-used) {
			return 0, false, false
		}
		if s.used.CompareAndSwap(used, used+n) {
			// Read after the cursor has moved: either this call sees a mark that is set
			// meanwhile, or whoever sets it sees the cursor.
			mark := s.mark.Load()
			return s.First + used, used < mark && used+n >= mark, true
		}
	}
}

// rearm sets the mark ahead of the cursor. Whoever calls it looks at the tag afterwards.
func (s *segment) rearm() {
	if s == nil {
		return
	}
	every := max(1, s.Len()/looks)
	for used := s.used.Load(); s.mark.Load() <= used; used = s.used.Load() {
		s.mark.Store((used/every + 1) * every)
	}
}

// left is how many IDs are left. A nil segment, one that is not there, has none.
func (s *segment) left() int64 {
	if s == nil {
		return 0
	}
	return s.Len() - s.used.Load()
}

// low reports, for a divisor such as loadAt, whether it is time to have another segment ready, however long this one lasts. A
// tag that was never asked for has no segment, and wants none.
func (s *segment) low(at int64) bool { return s != nil && s.used.Load() >= max(1, s.Len()/at) }
