package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/goroutines"
	"github.com/idworker/idworker/internal/metric"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/worker/internal/answer"
)

// queueGroup keeps the process in the queue group for one kind of request, or
// out of it. Its goroutine opens a member, waits until the process should leave
// or the member is lost, waits until the member has handled what was delivered,
// and begins again. So two members never answer side by side, and a tag's IDs
// stay in order. The server keeps no member that answers nothing; see
// [endpointConn].
//
// While requests queue for too long (see [queueDelay]), each gets 429 instead
// of IDs, and the process leaves the group until the delivered ones are
// handled. Other workers get the requests then, or callers learn at once that
// there is no responder. Leaving is needed because a refusal takes as long as
// an answer: a worker that refuses all it gets never catches up.
type queueGroup struct {
	log        *zap.Logger
	background *goroutines.Group
	changed    chan struct{} // wakes the goroutine; has room for one

	mu        sync.Mutex
	opener    opener // nil while there is nothing to answer with
	standsBy  bool
	member    member // nil outside the group
	outside   error  // why there is no member
	overloads int64  // how often the process left because requests queued too long
}

// opener opens a member of a queue group. Equal openers open equal members.
type opener interface{ open() (member, error) }

// member is what is in a queue group: an [endpointConn].
type member interface {
	stop()                  // begins to leave; delivered requests are still handled
	left() <-chan struct{}  // closed when none is handled any more
	state() (up, late bool) // whether requests reach it, and whether they queue too long
}

// Reasons for which a process is not in a queue group, in addition to the
// errors of entering.
var (
	errLeftOverloaded = errors.New("overloaded")
	errNotEntered     = errors.New("not entered yet")
	errConnLost       = errors.New("connection lost")
	errStopping       = errors.New("stopping")
	errStandsBy       = errors.New("another installation answers on the same subjects")
)

const (
	enterAgain     = 500 * time.Millisecond // after an attempt to enter that failed
	enteredPoll    = 10 * time.Millisecond
	overloadEvery  = 100 * time.Millisecond // between two checks
	overloadLogged = time.Minute            // between two log messages
)

func newQueueGroup(log *zap.Logger) *queueGroup {
	return &queueGroup{log: log, background: goroutines.New(), changed: make(chan struct{}, 1), outside: errNotEntered}
}

func (g *queueGroup) start() { g.background.Start(g.run) }

// close leaves the queue group for good, and returns when all that was
// delivered has been handled.
func (g *queueGroup) close() { g.background.Stop() }

// answerWith has the process in the queue group with the member that o opens,
// or out of it while o is nil. It does not wait for that; a failed attempt is
// repeated.
func (g *queueGroup) answerWith(o opener) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opener = o
	g.wake()
}

// standBy leaves the queue group to another installation, or comes back.
func (g *queueGroup) standBy(standsBy bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.standsBy = standsBy
	g.wake()
}

func (g *queueGroup) wake() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// wanted returns what the process should answer with, or nil.
func (g *queueGroup) wanted() opener {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.standsBy || g.stopping() {
		return nil
	}
	return g.opener
}

func (g *queueGroup) stopping() bool { return g.background.Context().Err() != nil }

// set notes the member, or why there is none.
func (g *queueGroup) set(m member, outside error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.member, g.outside = m, outside
	if errors.Is(outside, errLeftOverloaded) {
		g.overloads++
	}
}

// run is in the queue group whenever the process should be, until ctx ends.
func (g *queueGroup) run(ctx context.Context) {
	failing, logged := false, time.Time{}
	for ctx.Err() == nil {
		o := g.wanted()
		if o == nil {
			select {
			case <-g.changed:
			case <-ctx.Done():
			}
			continue
		}
		m, err := o.open()
		if err != nil {
			g.set(nil, err)
			if !failing {
				g.log.Error("cannot enter the queue group, retrying", zap.Error(err))
			}
			failing = true
			pause.For(ctx, enterAgain)
			continue
		}
		failing = false
		g.set(m, nil)
		why := g.awaitLeaving(ctx, o, m)
		g.set(nil, why)
		if errors.Is(why, errLeftOverloaded) && time.Since(logged) > overloadLogged {
			logged = time.Now()
			g.log.Warn("overloaded, leaving the queue group")
		}
		m.stop()
		<-m.left()
	}
}

// awaitLeaving returns when the process should not be in the group with a
// member any more, or the member is lost because its connection gave up. It
// returns the reason.
func (g *queueGroup) awaitLeaving(ctx context.Context, o opener, m member) error {
	ticker := time.NewTicker(overloadEvery)
	defer ticker.Stop()
	for g.wanted() == o {
		select {
		case <-g.changed:
		case <-ctx.Done():
		case <-m.left():
			return errNotEntered
		case <-ticker.C:
			if _, late := m.state(); late {
				return errLeftOverloaded
			}
		}
	}
	return errNotEntered
}

// awaitEntered returns when the process is in the group, a server has refused
// that, or ctx ends.
func (g *queueGroup) awaitEntered(ctx context.Context) error {
	for {
		err := g.missing()
		passing := errors.Is(err, errNotEntered) || errors.Is(err, errConnLost) || isAway(err)
		if !passing || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		pause.For(ctx, enteredPoll)
	}
}

// refuses returns why the process refuses direct requests, too, or nil. The
// connection is no reason: memory lasts without it.
func (g *queueGroup) refuses() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	late := errors.Is(g.outside, errLeftOverloaded)
	if g.member != nil {
		_, late = g.member.state()
	}
	switch {
	case g.stopping():
		return errStopping
	case g.standsBy:
		return errStandsBy
	case late:
		return answer.ErrOverloaded
	}
	return nil
}

// missing returns why no requests reach the process although it has something
// to answer them with and does not stand by, or nil.
func (g *queueGroup) missing() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.opener == nil || g.standsBy:
		return nil
	case g.member == nil:
		return g.outside
	}
	if up, _ := g.member.state(); !up {
		return errConnLost
	}
	return nil
}

var overloadsTotal = metric.Declare("overloads_total", "Times the worker left a queue group because requests queued too long.")

// overload reports how often the process left because of an overload, and
// whether it is out of the group now.
func (g *queueGroup) overload() OverloadStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return OverloadStats{Now: errors.Is(g.outside, errLeftOverloaded), Times: g.overloads}
}
