package worker

import (
	"context"
	"errors"
	"time"

	"github.com/idworker/idworker/internal/goroutines"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/worker/internal/decision"
	"github.com/idworker/idworker/worker/internal/supply"
)

// decisions is the part of a worker that looks for the operator's decisions.
type decisions struct {
	watch      *decision.Watch
	timeout    time.Duration // bounds the first look
	background *goroutines.Group
}

func newDecisions(c *Config, self ProcessIdentity, segments *supply.Supply, timing timing) *decisions {
	cfg := decision.Config{JS: c.JetStream, Prefix: c.Prefix, Installation: self.Installation, Segments: segments, Look: timing.learn, Pass: timing.pass, Log: c.Log}
	if c.Role.Loads() {
		cfg.Own = c.Store.Lowest
	}
	return &decisions{decision.New(cfg), timing.start, goroutines.New()}
}

// Start returns when the worker has learned the latest decision, unless that is
// unreadable: then grants bring it. From then on, grants by loaders of version
// 0.2.0 count.
func (d *decisions) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	for err := d.watch.Look(ctx); err != nil && !errors.Is(err, agreement.ErrDecision); err = d.watch.Look(ctx) {
		if pause.For(ctx, lookAgain); ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	d.background.Start(d.watch.Run)
	return nil
}

// Stop ends the looks.
func (d *decisions) Stop() error {
	d.background.Stop()
	return nil
}
