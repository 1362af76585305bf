package jetstream

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/idworker/idworker/internal/pause"
)

// A write takes between 0.05 and a few milliseconds, so a caller that lost a race waits
// about that long, and longer each time it loses again.
const (
	firstBackoff   = time.Millisecond
	longestBackoff = 64 * time.Millisecond
)

// backOff waits a random time, whose upper bound doubles with each attempt, counted
// from 0. It returns ctx.Err() if ctx ends first.
func backOff(ctx context.Context, attempt int) error {
	upTo := longestBackoff
	if attempt < 6 { // 1 ms doubled six times is 64 ms
		upTo = firstBackoff << attempt
	}
	pause.For(ctx, rand.N(upTo))
	return ctx.Err()
}
