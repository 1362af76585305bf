package ledger

import (
	"math/rand/v2"
	"time"
)

// A write takes between 0.05 and a few milliseconds, so a loader that lost a race waits about
// that long, and longer each time it loses again.
const (
	firstBackoff   = 500 * time.Microsecond
	longestBackoff = 32 * time.Millisecond
)

// backoff is a random time, whose upper bound doubles with each attempt, counted from 0.
func backoff(attempt int) time.Duration {
	return rand.N(min(longestBackoff, firstBackoff<<min(attempt, 6)))
}
