package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
)

// snowflakes is the part of a worker that keeps a worker ID and answers requests for
// snowflake IDs for as long as it has one. The requests for segments do not depend on it.
type snowflakes struct {
	processInfo
	manager    *lease.Manager
	figures    requestFigures
	group      *membership
	state      atomic.Pointer[lease.State] // the latest news of the worker ID
	background *goroutines
	tried      chan struct{} // closed when the first attempt to claim a worker ID has ended
}

var errNotClaimed = errors.New("not claimed yet")

// openSnowflakes opens the buckets of the worker IDs, which it creates if they are missing,
// and checks layout and clock.
func openSnowflakes(ctx context.Context, p processInfo) (*snowflakes, error) {
	cfg := p.cfg.Lease
	cfg.JS, cfg.Prefix, cfg.Instance, cfg.Log = p.js, p.cfg.Prefix, p.instance, p.cfg.Log
	cfg.Installation = p.installation.ID
	if err := lease.Create(ctx, p.js, cfg.Prefix, cfg.TTL, p.cfg.Replicas); err != nil {
		return nil, fmt.Errorf("worker IDs: %w", err)
	}
	manager, err := lease.Open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("worker IDs: %w", err)
	}
	return newSnowflakes(p, manager), nil
}

func newSnowflakes(p processInfo, manager *lease.Manager) *snowflakes {
	group := newMembership(p.cfg.Log.With(zap.String("group", "snowflake")))
	s := &snowflakes{processInfo: p, manager: manager, group: group, background: newGoroutines(), tried: make(chan struct{})}
	s.state.Store(&lease.State{Err: errNotClaimed})
	return s
}

// start begins to claim a worker ID.
func (s *snowflakes) start() { s.background.start(s.keepWorkerID) }

// stop releases the worker ID. The queue group must have been left before.
func (s *snowflakes) stop() { s.background.stop() }

// keepWorkerID keeps a worker ID until ctx ends, and is in the queue group of snowflake
// requests for just as long as it has one.
func (s *snowflakes) keepWorkerID(ctx context.Context) {
	tried := sync.OnceFunc(func() { close(s.tried) })
	err := s.manager.Run(ctx, func(state lease.State) {
		s.state.Store(&state)
		defer tried()
		if state.Generator == nil {
			s.group.leave()
		} else {
			s.answerWith(state.Generator)
		}
	})
	switch {
	case errors.Is(err, lease.ErrHeld):
		s.failed <- err
	case err != nil:
		s.cfg.Log.Warn("worker ID was not released, it will expire", zap.Error(err))
	}
}

// answerWith enters the queue group of snowflake requests with a generator. It does not wait
// for that: the worker ID has to be renewed meanwhile.
func (s *snowflakes) answerWith(g *snowflake.Generator) <-chan error {
	return s.group.join(func() (member, error) {
		return s.openPlace(snowflakeServiceName, "snowflake", s.cfg.Prefix.Snowflake(), func(line *waitingLine) micro.Handler {
			return &snowflakeEndpoint{frame: newFrame(s.cfg, line, &s.figures), generator: g}
		})
	})
}

// next appends n IDs to ranges.
func (s *snowflakes) next(ranges []snowflake.Range, n int64) ([]snowflake.Range, error) {
	state := s.state.Load()
	if state.Generator == nil {
		return nil, fmt.Errorf("the process has no worker ID: %w", state.Err)
	}
	return state.Generator.NextN(ranges, n)
}

// fillStats adds the worker ID, or why there is none.
func (s *snowflakes) fillStats(stats *Stats) {
	state := s.state.Load()
	if state.Generator == nil {
		stats.NoWorker = state.Err.Error()
		return
	}
	stats.WorkerID = &state.Worker
}
