package ownership

import (
	"math"
	"time"

	"github.com/idworker/idworker/internal/boottime"
)

// clock is a process's own clock, in nanoseconds from any beginning. It must not stand still, and
// need not be right: only its rate matters.
type clock func() int64

// unknown is the time while the clock cannot be read: nothing is valid then, and nobody is
// waited for long enough.
const unknown = math.MaxInt64

// systemClock is the clock that counts in suspend; on systems other than Linux, Go's monotonic time
// decides whether it does.
func systemClock() clock {
	if _, ok := boottime.Now(); !ok {
		start := time.Now()
		return func() int64 { return int64(time.Since(start)) }
	}
	return func() int64 {
		now, ok := boottime.Now()
		if !ok {
			return unknown
		}
		return now
	}
}

// marginParts is which part of T an owner does without, see the package's documentation: a sixth
// is enough for two clocks one of which gains and the other loses 9 %.
const marginParts = 6

// validity is how long an owner may answer after the start of a renewal.
func validity(term time.Duration) time.Duration { return term - term/marginParts }
