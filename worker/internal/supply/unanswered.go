package supply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/worker/loadmsg"
)

// unanswered detects that loaders do not serve: no answer came for some time,
// or all answers reported a failing store. Where no loader runs, no other part
// of an installation reports that. It logs a line when that begins and a line
// when it ends.
//
// All answers count, including refusals. While the connection is down, no
// answers can arrive, so the time restarts.
type unanswered struct {
	log *zap.Logger

	// The loop owns these.
	// when the first load after the latest answer was requested; or zero
	since time.Time
	// start of an uninterrupted series of store failures in answers; or zero
	failing   time.Time
	reason    string        // from the latest answer of that series
	latest    loadmsg.Event // the latest requested event
	lookedFor time.Time     // when loaders were last looked for
	served    bool          // a loader has served a load since the report

	current atomic.Pointer[UnansweredError] // without Loads
}

// patience is the time until unanswered loads are reported. It exceeds the time
// that the load stream holds the events of a dead loader.
const patience = 10 * time.Second

// findEvery is the interval between look-ups of loaders while none answers.
const findEvery = 10 * time.Second

// LoaderState is a worker's finding about loaders that do not answer.
type LoaderState int

// The findings.
const (
	LoadersUnknown LoaderState = iota // no finding
	NoLoader                          // no process listens for loads
	SomeLoader                        // some process does
	OwnLoader                         // the process is a loader itself
)

var loaderStates = map[LoaderState]string{
	LoadersUnknown: "no loader runs, or its store is down",
	NoLoader:       "no loader is running",
	SomeLoader:     "a loader is connected, its store may be down",
	OwnLoader:      "this process is a loader, its store may be down",
}

// UnansweredError reports that loaders do not serve.
type UnansweredError struct {
	Loads   int         // under way
	Since   time.Time   // when the first load was requested, or not served
	Loaders LoaderState // if no loader answers
	Reason  string      // if loaders answer: the error of their store
}

func (e *UnansweredError) Error() string {
	if e.Reason != "" {
		return "loaders cannot serve, store fails: " + e.Reason
	}
	loads := fmt.Sprintf("%d loads", e.Loads)
	if e.Loads == 1 {
		loads = "1 load"
	}
	return fmt.Sprintf("no loader answers: %s unanswered for %v; %s", loads, time.Since(e.Since).Round(time.Second), loaderStates[e.Loaders])
}

// requested records that a load was requested.
func (u *unanswered) requested(now time.Time, event loadmsg.Event) {
	if u.latest = event; u.since.IsZero() {
		u.since = now
	}
}

// answered records a loader's answer.
func (u *unanswered) answered(now time.Time, g loadmsg.Grant) {
	u.since = time.Time{}
	if g.NotNow != loadmsg.NotNowStore {
		u.failing, u.served = time.Time{}, true
		return
	}
	u.reason = cmp.Or(g.Reason, "no reason given")
	if !u.failing.IsZero() {
		return
	}
	u.failing = now
	if current := u.current.Load(); current != nil {
		// Loaders answer again, but still do not serve.
		u.failing = current.Since
	}
}

// look is called once a second. It reports whether to look for loaders.
func (u *unanswered) look(now time.Time, loading int, connected bool) bool {
	current := u.current.Load()
	for _, began := range []*time.Time{&u.since, &u.failing} {
		switch {
		case loading == 0:
			*began = time.Time{}
		case !connected && current == nil && !began.IsZero():
			*began = now
		}
	}
	lasts := func(began time.Time) bool { return !began.IsZero() && now.Sub(began) >= patience }
	switch {
	case lasts(u.since):
		if now.Sub(u.lookedFor) >= findEvery {
			u.lookedFor = now
			return true
		}
	case lasts(u.failing):
		u.report(&UnansweredError{Loads: loading, Since: u.failing, Reason: u.reason})
	case current != nil:
		text := "loads are served again"
		if !u.served { // their requests were given up
			text = "no loads are wanted any more"
		}
		u.log.Info(text, zap.Duration("after", now.Sub(current.Since)))
		u.current.Store(nil)
	}
	return false
}

// found records the finding about loaders, unless a loader has answered since.
func (u *unanswered) found(state LoaderState, loading int) {
	if !u.since.IsZero() && !u.since.After(u.lookedFor.Add(-patience)) {
		u.report(&UnansweredError{Loads: loading, Since: u.since, Loaders: state})
	}
}

func (u *unanswered) report(e *UnansweredError) {
	if u.current.Swap(e) == nil {
		u.served = false
		u.log.Warn("loads are not served", zap.Error(e))
	}
}

// Unanswered returns an [*UnansweredError] if loads are wanted but no loader
// has served a load for some time, else nil.
func (s *Supply) Unanswered() error {
	current := s.unanswered.current.Load()
	if current == nil {
		return nil
	}
	e := *current
	e.Loads = s.alloc.Loading()
	return &e
}

// findTimeout is the time after which a request counts as received by a loader.
const findTimeout = time.Second

// lookForLoaders looks for loaders by sending a load once more as a request: if
// no process subscribes to it, the server reports that. If a loader gets it,
// that is harmless, because the load is wanted; the loader answers by a grant
// and not by a reply.
func (s *Supply) lookForLoaders(event loadmsg.Event) {
	if s.cfg.Own != nil {
		s.unanswered.found(OwnLoader, s.alloc.Loading())
		return
	}
	s.goroutines.Start(func(ctx context.Context) {
		timed, cancel := context.WithTimeout(ctx, findTimeout)
		defer cancel()
		_, err := s.cfg.Control.RequestWithContext(timed, loadmsg.ReserveSubject(s.cfg.Prefix), event.Encode())
		state := LoadersUnknown
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			state = NoLoader
		case errors.Is(err, context.DeadlineExceeded) && s.cfg.Control.IsConnected():
			state = SomeLoader
		}
		select {
		case s.loaders <- state:
		case <-ctx.Done():
		}
	})
}
