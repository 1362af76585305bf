package worker

import (
	"sync"

	"github.com/nats-io/nats.go"
)

// membership is the process's place in the queue group for one kind of requests. Each kind
// has a micro service of its own, because micro cannot take one endpoint out of a service.
type membership struct {
	mu     sync.Mutex
	open   func() (member, error) // nil while there is nothing to answer with
	member member                 // nil outside the group
	away   outReason              // why it is out for a while, even with something to answer with
	closed bool                   // out for good
}

// member is what is in a queue group: a micro.Service, or a [plainMember].
type member interface {
	Stop() error
	Stopped() bool
}

// plainMember is a subscription as a member of a queue group.
type plainMember struct{ *nats.Subscription }

// Stop ends the subscription.
func (m plainMember) Stop() error { return m.Unsubscribe() }

// Stopped reports whether the subscription has ended.
func (m plainMember) Stopped() bool { return !m.IsValid() }

// outReason is a set of reasons to be out of a queue group. The process is back when there is
// none left.
type outReason uint8

// The reasons.
const (
	overloaded outReason = 1 << iota // requests wait for too long
	givingWay                        // another installation answers
)

// join enters the queue group with what open registers: now, or when the process comes
// back to the group.
func (m *membership) join(open func() (member, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = open
	return m.openMember()
}

// openMember registers the member, unless there is one or there should be none. It needs mu.
// What was registered in part, with an error, is kept, so that it is stopped in the end.
func (m *membership) openMember() (err error) {
	if m.open == nil || m.member != nil || m.away != 0 || m.closed {
		return nil
	}
	m.member, err = m.open()
	return err
}

// leave leaves the queue group until the next join. Requests that have been delivered are
// still answered.
func (m *membership) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = nil
	m.closeMember()
}

// close leaves the queue group for good.
func (m *membership) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.closeMember()
}

// closeMember stops the member, if there is one. It needs mu.
func (m *membership) closeMember() {
	if m.member != nil {
		_ = m.member.Stop() // fails only with the connection
		m.member = nil
	}
}

// stayAway leaves the queue group for a reason, or, with false, takes the reason back. While
// there is another one, the process stays away.
func (m *membership) stayAway(why outReason, away bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if away {
		m.away |= why
		m.closeMember()
		return nil
	}
	m.away &^= why
	return m.openMember()
}

// missing reports whether the process is out of the group although it has something to
// answer with, and gives way to nobody.
func (m *membership) missing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open != nil && m.away&givingWay == 0 && (m.member == nil || m.member.Stopped())
}
