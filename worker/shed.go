package worker

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// How often the shedder checks for an overload, and how often it logs one.
const (
	shedEvery  = 100 * time.Millisecond
	shedLogged = time.Minute
)

// shedder takes the process out of the queue groups while requests wait for too long before
// their turn, and back in when all that had been delivered is handled. Meanwhile other
// workers get the requests, or callers learn at once that nobody is there. That costs this
// process nothing, whereas answering 429 to every request would take it as long as answering
// with IDs.
type shedder struct {
	groups     []*membership
	log        *zap.Logger
	overloads  atomic.Int64 // how often it left the groups
	away       atomic.Bool  // it is out of them now
	background *goroutines
}

func newShedder(log *zap.Logger, groups ...*membership) *shedder {
	return &shedder{groups: groups, log: log, background: newGoroutines()}
}

func (s *shedder) start() { s.background.start(s.run) }
func (s *shedder) stop()  { s.background.stop() }

func (s *shedder) run(ctx context.Context) {
	ticker := time.NewTicker(shedEvery)
	defer ticker.Stop()
	var logged time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !slices.ContainsFunc(s.groups, (*membership).late) {
			continue
		}
		s.overloads.Add(1)
		if time.Since(logged) > shedLogged {
			logged = time.Now()
			s.log.Warn("overloaded, leaving the queue group until the waiting requests are handled; start more workers")
		}
		s.stayAway(true)
		s.awaitLeft(ctx)
		s.stayAway(false)
	}
}

// stayAway takes the process out of the queue groups, or back in.
func (s *shedder) stayAway(away bool) {
	s.away.Store(away)
	for _, m := range s.groups {
		m.stayAway(overloaded, away)
	}
}

// awaitLeft returns when all that was delivered before has been handled. The old endpoint and
// the new one must not answer side by side, or a tag's IDs would go out in disorder.
func (s *shedder) awaitLeft(ctx context.Context) { awaitLeft(ctx, s.groups) }
