package jetstream

import (
	"context"
	"math/rand/v2"
	"time"
)

// A write takes between 0.05 and a few milliseconds, so those who lost a race wait
// about as long, and longer each time they lose again.
const (
	firstPause   = time.Millisecond
	longestPause = 64 * time.Millisecond
)

// pause waits a random time that grows with the attempt, or returns why ctx ended.
func pause(ctx context.Context, attempt int) error {
	upTo := longestPause
	if attempt < 6 { // 1 ms doubled six times is 64 ms
		upTo = firstPause << attempt
	}
	timer := time.NewTimer(rand.N(upTo))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
