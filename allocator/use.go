package allocator

import (
	"slices"
	"time"

	"github.com/idworker/idworker/store"
)

// use measures the rate at which all workers together use up the numbers of a
// tag, over hours and days, for forecasts. meter does the same for the last
// half minute, and for one worker.
//
// A worker counts the IDs that it hands out. The share of other workers shows
// in its grants: the numbers between the end of a grant and the beginning of
// the next were granted to others, or burnt. A gap may also mean that the tag
// was raised, or that a process died after a large grant. Neither predicts the
// future, so the gap that counts is the median of the latest few, and a gap
// that is too large for any use does not count at all: several raises may
// follow each other within a few grants.
//
// The rate is the lower of two: over the whole window, and over its latter
// part. So neither a burst that has ended counts as the future, nor a burst
// that has just begun. The window begins with the tag's second grant, because a
// tag with few requests needs no forecast. It covers between two and five days
// once the worker has lived that long.
type use struct {
	// The beginnings of the window, of its latter part, and of the next.
	marks [3]sample
	made  int // how many of them there are
	gaps  [5]float32
	seen  int // number of gaps so far; the latest are kept
}

const (
	firstPart = 15 * time.Second // of a window that has begun; it doubles
	// A window of two such parts is long enough, and moves on.
	wholeParts = 24 * time.Hour

	leastUse  = 100 // IDs have to be handed out to measure a rate
	leastGaps = 3   // so that a single gap decides nothing

	// At a worker that gets a grant every quarter of an hour, a gap of this
	// size means a raise, or that others use more than a million IDs a second.
	leastRaise = 1_000_000_000
)

// record moves the window, if it is time for that.
func (u *use) record(now sample) {
	begin, latest := u.marks[0], u.marks[max(u.made-1, 0)]
	whole := latest.at - begin.at
	switch {
	case u.made == 0, u.made == 1 && now.at-begin.at >= firstPart, u.made == 2 && now.at-begin.at >= 2*whole:
		u.marks[u.made] = now
		u.made++
	case u.made < len(u.marks):
	case whole >= 2*wholeParts && now.at-latest.at >= wholeParts:
		u.marks = [...]sample{u.marks[1], latest, now}
	case whole < 2*wholeParts && now.at-begin.at >= 2*whole:
		u.marks[1], u.marks[2] = latest, now
	}
}

// rate is how many numbers are used up a second, and over which time that was
// measured; 0 if there was too little to measure.
func (u *use) rate(now sample) (perSecond float64, over time.Duration) {
	if u == nil || u.made < 2 || u.seen < leastGaps || now.total-u.marks[0].total < leastUse {
		return 0, 0
	}
	over = now.at - u.marks[0].at
	own := min(now.rateSince(u.marks[0]), now.rateSince(u.marks[1]))
	return own * (1 + u.gap()), over
}

// gap is the usual number of IDs that others are granted for each ID granted to
// this worker.
func (u *use) gap() float64 {
	latest := slices.Sorted(slices.Values(u.gaps[:min(u.seen, len(u.gaps))]))
	return float64(latest[(len(latest)-1)/2])
}

// recordGap takes in a grant before it counts as granted. It needs mu.
func (t *tag) recordGap(s store.Segment) {
	gap := s.First - t.high
	if t.high == 0 || gap >= leastRaise {
		return // the previous grant is unknown, or the tag was raised
	}
	if t.use == nil {
		t.use = new(use)
	}
	t.use.gaps[t.use.seen%len(t.use.gaps)] = float32(gap) / float32(s.Len())
	t.use.seen++
}
