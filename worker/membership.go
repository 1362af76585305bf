package worker

import (
	"sync"

	"github.com/nats-io/nats.go/micro"
)

// membership is the process's place in the queue group for one kind of requests. Each kind
// has a micro service of its own, because micro cannot take one endpoint out of a service.
type membership struct {
	mu      sync.Mutex
	open    func() (micro.Service, error) // nil while there is nothing to answer with
	service micro.Service                 // nil outside the group
	away    bool                          // out for a while, even with something to answer with
	closed  bool                          // out for good
}

// join enters the queue group with what open registers: now, or when the process comes
// back to the group.
func (m *membership) join(open func() (micro.Service, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = open
	return m.openService()
}

// openService registers the service, unless there is one or there should be none. It needs
// mu.
func (m *membership) openService() (err error) {
	if m.open == nil || m.service != nil || m.away || m.closed {
		return nil
	}
	m.service, err = m.open()
	return err
}

// leave leaves the queue group until the next join. Requests that have been delivered are
// still answered.
func (m *membership) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = nil
	m.closeService()
}

// close leaves the queue group for good.
func (m *membership) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.closeService()
}

// closeService stops the service, if there is one. It needs mu.
func (m *membership) closeService() {
	if m.service != nil {
		_ = m.service.Stop() // fails only with the connection
		m.service = nil
	}
}

// stayAway leaves the queue group until stayAway(false) brings the process back.
func (m *membership) stayAway(away bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away = away; away {
		m.closeService()
		return nil
	}
	return m.openService()
}

// missing reports whether the process is out of the group although it has something to
// answer with.
func (m *membership) missing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open != nil && (m.service == nil || m.service.Stopped())
}
