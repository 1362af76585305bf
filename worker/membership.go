package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
)

// membership is the process's place in the queue group for one kind of requests: it says
// whether the process should be there, and a goroutine sees to it that it is.
type membership struct {
	log        *zap.Logger
	background *goroutines

	mu       sync.Mutex
	open     func() (member, error) // nil while there is nothing to answer with
	joins    int                    // tells one open from another
	first    chan error             // what became of the first attempt with open and a server; nil if that is known
	entering bool                   // open is being called, again and again if it fails
	failed   error                  // what became of the latest attempt
	member   member                 // nil outside the group
	previous member                 // the latest that was stopped; it may still be handling requests
	away     outReason              // why it is out for a while, even with something to answer with
	closed   bool                   // out for good
}

func newMembership(log *zap.Logger) *membership {
	return &membership{log: log, background: newGoroutines()}
}

// member is what is in a queue group: a [place], or a [plainMember].
type member interface {
	stop()                  // begins to leave; requests that have been delivered are still handled
	left() <-chan struct{}  // closed when none is handled any more
	state() (up, late bool) // whether requests reach it, and whether they wait for too long
}

// plainMember is a subscription as a member of a queue group. What has been delivered to it is
// lost when it stops, but it never stays behind in the server: unsubscribing removes it from
// what a reconnect subscribes to again.
type plainMember struct {
	sub  *nats.Subscription
	gone chan struct{}
}

func newPlainMember(sub *nats.Subscription) plainMember {
	return plainMember{sub, make(chan struct{})}
}

func (m plainMember) stop() {
	_ = m.sub.Unsubscribe() // fails only with the connection
	close(m.gone)
}

func (m plainMember) left() <-chan struct{}  { return m.gone }
func (m plainMember) state() (up, late bool) { return m.sub.IsValid(), false }

// outReason is a set of reasons to be out of a queue group. The process is back when there is
// none left.
type outReason uint8

// The reasons.
const (
	overloaded outReason = 1 << iota // requests wait for too long
	givingWay                        // another installation answers
)

// Why a process is missing in a queue group, if not because an attempt to enter failed, or why it answers
// nobody at all.
var (
	errLeftOverloaded = errors.New("overloaded")
	errNotEntered     = errors.New("not entered yet")
	errPlaceLost      = errors.New("its connection is lost")
	errStopping       = errors.New("stopping")
	errGivesWay       = errors.New("another installation answers on the same subjects")
)

// enterAgain is the pause after an attempt to enter the queue group that failed.
const enterAgain = 500 * time.Millisecond

// join enters the queue group with what open registers: now, or when the process comes back
// to the group. It does not wait for that; the channel tells what became of the first attempt for which
// a server was there. There are more until one succeeds or the process need not be in the group any more.
func (m *membership) join(open func() (member, error)) <-chan error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closeMember()
	first := make(chan error, 1)
	m.open, m.first, m.failed = open, first, nil
	m.joins++
	if !m.wanted() {
		m.report(nil)
	}
	m.update()
	return first
}

// leave leaves the queue group until the next join. Requests that have been delivered are
// still answered.
func (m *membership) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = nil
	m.update()
}

// close leaves the queue group for good, and returns when no attempt to enter is under way.
func (m *membership) close() {
	m.mu.Lock()
	m.closed = true
	m.update()
	m.mu.Unlock()
	m.background.stop()
}

// stayAway leaves the queue group for a reason, or, with false, takes the reason back. While
// there is another one, the process stays away.
func (m *membership) stayAway(why outReason, away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if away {
		m.away |= why
	} else {
		m.away &^= why
	}
	m.update()
}

// wanted reports whether the process should be in the group. It needs mu.
func (m *membership) wanted() bool { return m.open != nil && m.away == 0 && !m.closed }

// update has the process leave or enter, whichever is due. It needs mu.
func (m *membership) update() {
	switch {
	case !m.wanted():
		m.closeMember()
	case m.member == nil && !m.entering:
		m.entering = m.background.start(m.enter)
	}
}

// closeMember stops the member, if there is one. It needs mu.
func (m *membership) closeMember() {
	if m.member != nil {
		m.member.stop()
		m.previous, m.member = m.member, nil
	}
}

// report tells whoever joined what became of the first attempt. It needs mu.
func (m *membership) report(err error) {
	if m.first != nil {
		m.first <- err
		m.first = nil
	}
}

// enter tries to enter the queue group until the process is in, or need not be.
func (m *membership) enter(ctx context.Context) {
	logged := false
	for {
		open, join := m.due()
		if open == nil {
			return
		}
		entered, err := open()
		if err == nil {
			m.install(entered, join)
			continue
		}
		m.mu.Lock()
		m.failed = err
		if !isAway(err) {
			m.report(err)
		}
		m.mu.Unlock()
		if !logged {
			m.log.Error("requests are not answered: cannot enter the queue group, trying again", zap.Error(err))
			logged = true
		}
		pause.For(ctx, enterAgain)
	}
}

// due returns what to enter the group with, and of which join that is; or nil if there is
// nothing to do any more.
func (m *membership) due() (open func() (member, error), join int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.wanted() || m.member != nil {
		m.report(nil)
		m.entering = false
		return nil, 0
	}
	return m.open, m.joins
}

// install makes a member the one that is in the group, unless something else is due by now.
func (m *membership) install(entered member, join int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.member, m.failed = entered, nil
	if join != m.joins || !m.wanted() {
		m.closeMember()
		return
	}
	m.report(nil)
	m.background.start(func(ctx context.Context) { m.replaceLost(ctx, entered) })
}

// replaceLost enters the group again when a member has left it by itself, because its
// connection gave up.
func (m *membership) replaceLost(ctx context.Context, lost member) {
	select {
	case <-ctx.Done():
		return
	case <-lost.left():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.member == lost {
		m.member = nil
		m.update()
	}
}

// awaitLeft returns when all that was delivered before the process left the groups has been
// handled, or that takes very long.
func awaitLeft(ctx context.Context, groups []*membership) {
	ctx, cancel := context.WithTimeout(ctx, markLost)
	defer cancel()
	for _, m := range groups {
		m.awaitLeft(ctx)
	}
}

// awaitLeft returns when all that was delivered before the process left the group has been
// handled.
func (m *membership) awaitLeft(ctx context.Context) {
	m.mu.Lock()
	previous := m.previous
	m.mu.Unlock()
	if previous == nil {
		return
	}
	select {
	case <-previous.left():
	case <-ctx.Done():
	}
}

// refuses says why the process answers no requests that come by another way either, or returns nil. Without
// a connection it does: it answers from memory.
func (m *membership) refuses() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return errStopping
	case m.away&givingWay != 0:
		return errGivesWay
	case m.away&overloaded != 0 || m.memberLate():
		return errOverloaded
	}
	return nil
}

// late reports whether requests wait for too long before their turn.
func (m *membership) late() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.memberLate()
}

// memberLate needs mu.
func (m *membership) memberLate() bool {
	if m.member == nil {
		return false
	}
	_, late := m.member.state()
	return late
}

// missing says why no requests reach the process although it has something to answer them
// with, and gives way to nobody. It returns nil otherwise.
func (m *membership) missing() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.open == nil || m.away&givingWay != 0:
		return nil
	case m.away&overloaded != 0:
		return errLeftOverloaded
	case m.member == nil && m.failed != nil:
		return m.failed
	case m.member == nil:
		return errNotEntered
	}
	if up, _ := m.member.state(); !up {
		return errPlaceLost
	}
	return nil
}
