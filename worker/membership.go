package worker

import (
	"sync"

	"github.com/nats-io/nats.go/micro"
)

// membership is the process's place in the queue group of one kind of requests. Each has
// a micro service of its own, because micro cannot take one endpoint out of a service.
type membership struct {
	mu      sync.Mutex
	open    func() (micro.Service, error) // nil while there is nothing to answer with
	service micro.Service                 // nil outside the group
	away    bool                          // outside for a while, whatever there is to answer with
	closed  bool                          // outside for good
}

// join enters the queue group, now or when the process comes back to it.
func (m *membership) join(open func() (micro.Service, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = open
	return m.enter()
}

// enter registers the service, unless there is one or there should be none. Called with mu.
func (m *membership) enter() (err error) {
	if m.open == nil || m.service != nil || m.away || m.closed {
		return nil
	}
	m.service, err = m.open()
	return err
}

// leave leaves the queue group until there is something else to answer with. Requests that
// have been delivered are still answered.
func (m *membership) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = nil
	m.exit()
}

// close leaves the queue group for good.
func (m *membership) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.exit()
}

// exit stops the service. Called with mu.
func (m *membership) exit() {
	if m.service != nil {
		_ = m.service.Stop() // fails only with the connection
		m.service = nil
	}
}

// stayAway leaves the queue group for a while, or comes back to it.
func (m *membership) stayAway(away bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away = away; away {
		m.exit()
		return nil
	}
	return m.enter()
}

// missing reports whether the process is not in the group, although it has something to
// answer with.
func (m *membership) missing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open != nil && (m.service == nil || m.service.Stopped())
}
