package ledger

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/store"
)

// What a ledger may cost while it is out of reach and ranges are granted without it.
const (
	bestEffortTimeout = time.Second     // for one write; the store's own call has to fit in as well
	bestEffortPause   = 5 * time.Second // until it is tried again
)

// record decides whether a range may be granted: it is claimed, or the mode allows to grant it
// although JetStream is away.
func (s *Store) record(ctx context.Context, tag string, seg store.Segment, isNew bool) error {
	if s.mode != BestEffort {
		return s.claim(ctx, tag, seg, isNew)
	}
	if s.latest(tag).high > seg.First {
		return errBelow
	}
	if s.away.now() {
		s.figures.unrecorded.Add(1)
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, bestEffortTimeout)
	defer cancel()
	err := s.claim(bounded, tag, seg, isNew)
	switch {
	case err == nil:
		s.away.end()
		return nil
	case errors.Is(err, errBelow), errors.Is(err, ErrLost), errors.Is(err, durability.ErrUnsafe), ctx.Err() != nil:
		return err
	}
	s.away.begin(err)
	s.figures.unrecorded.Add(1)
	return nil
}

// away is whether the ledger is out of reach. It logs a line when that begins and one when it
// ends.
type away struct {
	log *zap.Logger

	mu    sync.Mutex
	since time.Time // zero if it is in reach
	until time.Time // when it is tried again
}

// now reports whether there is no use in trying.
func (a *away) now() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().Before(a.until)
}

func (a *away) begin(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.until = now.Add(bestEffortPause)
	if a.since.IsZero() {
		a.since = now
		a.log.Error("the ledger is out of reach: IDs are granted without it, and a store that goes back now is not noticed", zap.Error(err))
	}
}

func (a *away) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.since.IsZero() {
		a.log.Info("the ledger is in reach again", zap.Duration("after", time.Since(a.since)))
		a.since = time.Time{}
	}
}
