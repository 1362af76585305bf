package worker

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// The pace at which an overload is looked for, and told of in the log.
const (
	shedEvery  = 100 * time.Millisecond
	shedLogged = time.Minute
)

// shed takes the process out of the queue groups while requests wait for too long before
// their turn, and back into them when what had been delivered is handled. Meanwhile the
// other workers get the requests, or callers learn at once that nobody is there, at no cost
// for this process: answering 429 to all would take it as long as answering with IDs.
func (w *Worker) shed(ctx context.Context) {
	ticker := time.NewTicker(shedEvery)
	defer ticker.Stop()
	var logged time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !w.line.late() {
			continue
		}
		w.overloads.Add(1)
		if time.Since(logged) > shedLogged {
			logged = time.Now()
			w.cfg.Log.Warn("overloaded, leaving the queue group until what waits is worked off; start more workers")
		}
		w.stayAway(true)
		w.handleDelivered(ctx)
		w.stayAway(false)
	}
}

// stayAway takes the process out of both queue groups, or back.
func (w *Worker) stayAway(away bool) {
	for _, m := range []*membership{&w.segmentGroup, &w.snowflakeGroup} {
		if err := m.stayAway(away); err != nil {
			w.cfg.Log.Error("requests are not answered", zap.Error(err))
		}
	}
}

// handleDelivered returns when all that was delivered before has been handled: the old
// endpoint and the new one must not answer side by side, or a tag's IDs would go out in
// disorder.
func (w *Worker) handleDelivered(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, markLost)
	defer cancel()
	if w.cfg.Requests.FlushWithContext(ctx) != nil {
		return // the connection is lost, and with it what the server had for it
	}
	handled := make(chan struct{})
	if w.cfg.Requests.Barrier(func() { close(handled) }) != nil {
		return
	}
	select {
	case <-handled:
	case <-ctx.Done():
	}
}
