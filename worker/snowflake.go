package worker

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
)

// snowflakeEndpoint answers requests for snowflake IDs with one worker ID. The next
// worker ID has an endpoint of its own: this one may still be answering what had been
// delivered to it. NATS calls it from one goroutine.
type snowflakeEndpoint struct {
	gate
	maxBatch  int64
	generator *snowflake.Generator // revoked when the worker ID is lost
	ranges    []snowflake.Range    // reused
	buf       []byte               // for replies; NATS copies them
}

// Handle is the micro.Handler.
func (e *snowflakeEndpoint) Handle(req micro.Request) {
	began, ok := e.enter(req)
	if !ok {
		return
	}
	n, err := messages.DecodeCount(req.Data(), e.maxBatch)
	if err != nil {
		e.fail(req, err, began)
		return
	}
	if e.ranges, err = e.generator.NextN(e.ranges[:0], n); err != nil {
		e.fail(req, err, began)
		return
	}
	e.buf = e.buf[:0]
	for _, r := range e.ranges {
		e.buf = messages.AppendRange(e.buf, messages.Range{First: int64(r.First), Last: int64(r.Last)})
	}
	_ = req.Respond(e.buf) // fails only with the connection; micro counts it
	e.gave(n, began)
}

// openLease opens the buckets of the worker IDs, made if they are missing, and checks
// layout and clock.
func (w *Worker) openLease(ctx context.Context) (*lease.Manager, error) {
	cfg := w.cfg.Lease
	cfg.JS, cfg.Prefix, cfg.Instance, cfg.Log = w.js, w.cfg.Prefix, w.instance, w.cfg.Log
	if err := lease.Create(ctx, w.js, cfg.Prefix, cfg.TTL, w.cfg.Replicas); err != nil {
		return nil, fmt.Errorf("worker IDs: %w", err)
	}
	m, err := lease.Open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("worker IDs: %w", err)
	}
	return m, nil
}

// holdLease keeps a worker ID until ctx ends, and is in the queue group of snowflake
// requests for just as long as it has one. The other endpoints stay where they are.
func (w *Worker) holdLease(ctx context.Context, m *lease.Manager) {
	err := m.Run(ctx, func(s lease.State) {
		w.lease.Store(&s)
		if s.Generator == nil {
			w.snowflakeGroup.leave()
		} else if err := w.joinSnowflake(s.Generator); err != nil {
			w.cfg.Log.Error("snowflake requests are not answered", zap.Error(err))
		}
	})
	if err != nil {
		w.cfg.Log.Warn("worker ID was not released, it will expire", zap.Error(err))
	}
}

// joinSnowflake enters the queue group of snowflake requests with a generator.
func (w *Worker) joinSnowflake(g *snowflake.Generator) error {
	return w.snowflakeGroup.join(func() (micro.Service, error) {
		return w.addService(snowflakeServiceName, "snowflake", w.cfg.Prefix.Snowflake(), &snowflakeEndpoint{
			gate:     gate{replies: newReplyCheck(w.cfg.Prefix), line: &w.line, figures: &w.snowflakes},
			maxBatch: w.cfg.MaxBatch, generator: g,
		})
	})
}
