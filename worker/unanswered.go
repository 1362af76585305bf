package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/loads"
)

// unanswered notices that no loader answers, which nobody else would say where no loader runs.
// It logs one line when that begins and one when it is over.
//
// What counts as an answer is any grant and any refusal. One that is due soon after a loader
// died takes longer than usual, hence patience. While the connection is lost the process knows
// nothing of loaders, and the time starts again.
type unanswered struct {
	loading   func() int                                     // how many loads are under way
	connected func() bool                                    // to NATS
	find      func(context.Context, loads.Event) LoaderState // whether a loader is there, found out with a load under way
	log       *zap.Logger

	mu      sync.Mutex
	since   time.Time   // the first load that was asked for after the latest answer; or zero
	latest  loads.Event // that was asked for
	current *UnansweredError
}

// patience is how long loads may be unanswered until somebody is told: longer than the load
// stream holds on to the events of a loader that died.
const patience = 10 * time.Second

// findEvery is how often loaders are looked for while none answers.
const findEvery = 10 * time.Second

// LoaderState is what a worker knows of loaders that do not answer it.
type LoaderState int

// What a worker may know.
const (
	LoadersUnknown LoaderState = iota // it could not find out
	NoLoader                          // nobody listens for loads
	SomeLoader                        // somebody does
	OwnLoader                         // the process is a loader itself
)

var loaderStates = map[LoaderState]string{
	LoadersUnknown: "is a loader running, and does its store answer?",
	NoLoader:       "no loader is running: nobody listens for loads",
	SomeLoader:     "a loader is there: does its store answer?",
	OwnLoader:      "this process is a loader itself: does its store answer?",
}

// UnansweredError says that loads are not answered.
type UnansweredError struct {
	Loads   int       // under way
	Since   time.Time // the first was asked for
	Loaders LoaderState
}

func (e *UnansweredError) Error() string {
	return fmt.Sprintf("no loader answers: %d loads unanswered for %v; %s",
		e.Loads, time.Since(e.Since).Round(time.Second), loaderStates[e.Loaders])
}

// asked records that a load was asked for.
func (u *unanswered) asked(event loads.Event) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.latest = event; u.since.IsZero() {
		u.since = time.Now()
	}
}

// answered records that a loader answered.
func (u *unanswered) answered() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.since = time.Time{}
}

// run looks once a second, until ctx ends.
func (u *unanswered) run(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var found time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if since, event := u.quietSince(); since.IsZero() {
			u.end()
			found = time.Time{}
		} else if time.Since(found) >= findEvery {
			found = time.Now()
			u.begin(since, u.find(ctx, event))
		}
	}
}

// quietSince is when the first load was asked for that is unanswered for longer than there is
// patience; or zero.
func (u *unanswered) quietSince() (since time.Time, latest loads.Event) {
	n := u.loading()
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case n == 0:
		u.since = time.Time{}
	case !u.connected() && !u.since.IsZero() && u.current == nil:
		u.since = time.Now()
	}
	if u.since.IsZero() || time.Since(u.since) < patience {
		return time.Time{}, u.latest
	}
	return u.since, u.latest
}

// begin says that loads are not answered, if that was not said yet.
func (u *unanswered) begin(since time.Time, loaders LoaderState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.since != since {
		return // answered meanwhile
	}
	first := u.current == nil
	u.current = &UnansweredError{Since: since, Loaders: loaders}
	if first {
		u.log.Warn("loads are not answered, memory will run out", zap.Error(u.withLoads()))
	}
}

// end says that loads are answered again, if they were not.
func (u *unanswered) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.current != nil {
		u.log.Info("no load is unanswered any more", zap.Duration("after", time.Since(u.current.Since)))
	}
	u.current = nil
}

// err says that no loader answers, or returns nil.
func (u *unanswered) err() *UnansweredError {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.withLoads()
}

// withLoads needs mu.
func (u *unanswered) withLoads() *UnansweredError {
	if u.current == nil {
		return nil
	}
	e := *u.current
	e.Loads = u.loading()
	return &e
}

func (u *unanswered) collect(to sink) {
	seconds := 0.0
	if e := u.err(); e != nil {
		seconds = time.Since(e.Since).Seconds()
	}
	to.gauge(unansweredMetric, seconds)
}

// findTimeout is after how long a request that nobody refused counts as received.
const findTimeout = time.Second

// findLoader finds out whether a loader is there, by a load event that is sent to loaders as a
// plain message once more: the server says whether nobody listens. If one gets it, that does no
// harm, since the load is wanted; its answer is a grant and not a reply.
func findLoader(ctx context.Context, p processInfo, event loads.Event) LoaderState {
	if p.cfg.loads() {
		return OwnLoader
	}
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	_, err := p.cfg.Control.RequestWithContext(ctx, loads.ReserveSubject(p.cfg.Prefix), event.Encode())
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return NoLoader
	case errors.Is(err, context.DeadlineExceeded) && p.cfg.Control.IsConnected():
		return SomeLoader
	}
	return LoadersUnknown
}
