// Package pause waits without outlasting a context.
package pause

import (
	"context"
	"time"
)

// For waits for d. It returns early, with the context's error, if ctx ends before.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
