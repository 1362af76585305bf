package tags

import (
	"context"
	"math"
	"time"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/testing/natstest"
)

// Patient has waits for processes take as long as they need, and calls lapsed where
// a process gets the time to replace a lapsed lease.
func (t *Tags) Patient(lapsed func()) {
	t.Orders.clock = clock{
		limit: func(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, natstest.Patience)
		},
		pause: func(ctx context.Context, d time.Duration) {
			if d == newLease {
				lapsed()
				return
			}
			pause.For(ctx, 10*time.Millisecond)
		},
		since: time.Since,
	}
}

// Impatient returns the same tags, but waits for processes end after one look, or,
// where the time for silence has passed, after two.
func (t *Tags) Impatient(silent bool) *Tags {
	type pausing struct {
		cancel context.CancelFunc
		times  int
	}
	var key struct{ pausing }
	looks, since := 1, time.Duration(0)
	if silent {
		looks, since = 2, math.MaxInt64
	}
	orders := *t.Orders
	orders.clock = clock{
		limit: func(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			return context.WithValue(ctx, &key, &pausing{cancel: cancel}), cancel
		},
		pause: func(ctx context.Context, _ time.Duration) {
			p, _ := ctx.Value(&key).(*pausing)
			if p.times++; p.times == looks {
				p.cancel()
			}
		},
		since: func(time.Time) time.Duration { return since },
	}
	return &Tags{t.store, t.directory, &orders}
}
