package benching

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/idworker/idworker/internal/pause"
)

// schedule says when the next request is due, to all callers.
type schedule struct {
	began time.Time
	rate  int // requests a second; 0: whenever a caller has nothing else to do
	taken atomic.Int64
}

// due is how many requests were to be made within a time.
func (s *schedule) due(within time.Duration) int64 { return int64(within.Seconds() * float64(s.rate)) }

// next waits until the next request is due, and returns when that was. If all callers were busy then, the
// request is late, and so is every one behind it: that is what a caller of a real service would wait, so
// latency counts from there. That a timer was late counts for nothing.
func (s *schedule) next(ctx context.Context) (due time.Time, ok bool) {
	if s.rate == 0 {
		return time.Now(), ctx.Err() == nil
	}
	after := float64(s.taken.Add(1)-1) / float64(s.rate)
	due = s.began.Add(time.Duration(after * float64(time.Second)))
	if wait := time.Until(due); wait > 0 {
		pause.For(ctx, wait)
		due = time.Now()
	}
	return due, ctx.Err() == nil
}
