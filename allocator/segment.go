package allocator

import (
	"sync/atomic"

	"github.com/idworker/idworker/store"
)

// segment is a tag's current segment with the cursor that hands out its IDs.
type segment struct {
	store.Segment
	mark int64 // used IDs at which the next segment is asked for
	used atomic.Int64
}

// loadAt is the divisor that says how much of a segment is used before the next is asked
// for: one tenth, as in Leaf.
const loadAt = 10

// newSegment returns s with its first used IDs already taken.
func newSegment(s store.Segment, used int64) *segment {
	seg := &segment{Segment: s, mark: max(1, s.Len()/loadAt)}
	seg.used.Store(used)
	return seg
}

// take moves the cursor over n IDs, if the segment has that many left. crossed reports
// whether this call moved it over the mark; exactly one does.
func (s *segment) take(n int64) (first int64, crossed, ok bool) {
	for {
		used := s.used.Load()
		// Compared as unsigned numbers, so that an n below 1 takes nothing either.
		if uint64(n-1) >= uint64(s.Len()-used) {
			return 0, false, false
		}
		if s.used.CompareAndSwap(used, used+n) {
			return s.First + used, used < s.mark && used+n >= s.mark, true
		}
	}
}

// left is how many IDs are left. A nil segment, one that is not there, has none.
func (s *segment) left() int64 {
	if s == nil {
		return 0
	}
	return s.Len() - s.used.Load()
}

// low reports whether it is time to have another segment ready. A tag that was never
// asked for has no segment, and wants none.
func (s *segment) low() bool { return s != nil && s.used.Load() >= s.mark }
