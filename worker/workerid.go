package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/goroutines"
	"github.com/idworker/idworker/internal/metric"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/worker/forecast"
)

// workerID holds a worker ID, and keeps the process in the queue group of
// snowflake requests while it does. Requests for segments do not depend on it.
type workerID struct {
	layout     snowflake.Layout
	control    *nats.Conn
	log        *zap.Logger
	entrance   *entrance
	manager    *lease.Manager
	group      *queueGroup
	background *goroutines.Group
	// the latest from the manager
	state atomic.Pointer[lease.State]
	// closed after the first attempt to claim a worker ID
	tried chan struct{}
	// see [Process.Failed]; capacity 1
	failed chan error
}

var errNotClaimed = errors.New("not claimed yet")

// openWorkerID opens the buckets of worker IDs, and checks layout and clock.
func openWorkerID(ctx context.Context, c *Config, self ProcessIdentity, e *entrance) (*workerID, error) {
	cfg := c.Lease
	cfg.JS, cfg.Prefix, cfg.Instance, cfg.Log = c.JetStream, c.Prefix, self.Instance, c.Log
	cfg.Installation = self.Installation
	manager, err := lease.Open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("worker IDs: %w", err)
	}
	w := &workerID{
		layout: cfg.Layout, control: c.Control, log: c.Log, entrance: e, manager: manager, background: goroutines.New(),
		group: newQueueGroup(c.Log.With(zap.String("group", "snowflake"))),
		tried: make(chan struct{}), failed: make(chan error, 1),
	}
	w.state.Store(&lease.State{Err: errNotClaimed})
	return w, nil
}

// start begins to claim a worker ID.
func (w *workerID) start() {
	w.group.start()
	w.background.Start(w.keep)
}

// stop releases the worker ID. The queue group must have been left before.
func (w *workerID) stop() { w.background.Stop() }

// keep holds a worker ID until ctx ends.
func (w *workerID) keep(ctx context.Context) {
	err := w.manager.Run(ctx, func(state lease.State) {
		first := errors.Is(w.state.Swap(&state).Err, errNotClaimed)
		if state.Generator == nil {
			w.group.answerWith(nil)
		} else {
			w.group.answerWith(snowflakeRequests{w.entrance, state.Generator})
		}
		if first {
			close(w.tried)
		}
	})
	switch {
	case errors.Is(err, lease.ErrHeld):
		w.failed <- err
	case err != nil && w.control.IsConnected(): // the stop reports a lost server
		w.log.Warn("worker ID not released, will expire", zap.Error(err))
	}
}

// generator returns the generator of the held worker ID.
func (w *workerID) generator() (*snowflake.Generator, error) {
	state := w.state.Load()
	if state.Generator == nil {
		return nil, fmt.Errorf("no worker ID: %w", state.Err)
	}
	return state.Generator, nil
}

// report adds the clock and the worker ID, or the reason why there is none.
func (w *workerID) report(r *Report) {
	f := w.manager.Figures()
	r.Clock = &ClockStats{f.ClockDiff.Milliseconds(), f.Reserved.Seconds(), new(f.Unconfirmed.Seconds())}
	if state := w.state.Load(); state.Generator == nil {
		r.Stats.NoWorker = state.Err.Error()
	} else {
		r.Stats.WorkerID = &state.Worker
	}
}

var (
	leaseHeld     = metric.Declare("lease_held", "1 if the process holds a worker ID, else 0.")
	leaseWorker   = metric.Declare("lease_worker_id", "Worker ID held by the process.")
	leaseReserved = metric.Declare("lease_reserved_seconds", "Seconds beyond the clock that the worker ID has reserved.")
	unconfirmed   = metric.Declare("lease_unconfirmed_seconds", "Seconds since a heartbeat succeeded, 0 if one did within the TTL.")
	layoutEnd     = metric.Declare("layout_runs_out_timestamp_seconds", "Unix time when snowflake IDs reach 2^31 or 2^53, or end.", "limit")
	clockDiff     = metric.Declare("clock_difference_seconds", "Seconds that this clock is ahead of the NATS server's.")
)

func (w *workerID) collect(to metric.Sink) {
	state := w.state.Load()
	to.BoolGauge(leaseHeld, state.Generator != nil)
	if state.Generator != nil {
		to.Gauge(leaseWorker, float64(state.Worker))
	}
	f := w.manager.Figures()
	to.Gauge(clockDiff, f.ClockDiff.Seconds())
	to.Gauge(leaseReserved, f.Reserved.Seconds())
	to.Gauge(unconfirmed, f.Unconfirmed.Seconds())
	for _, date := range forecast.OfLayout(w.layout, time.Now()) {
		to.Gauge(layoutEnd, float64(date.At.Unix()), string(date.Limit))
	}
}
