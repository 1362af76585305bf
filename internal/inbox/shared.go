package inbox

import (
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
)

// Shared is the inboxes of many requests, with one subscription among them:
// servers may limit the subscriptions of a connection. It subscribes while any
// inbox is open. The zero value is ready to use.
type Shared struct {
	mu      sync.Mutex
	opened  uint64
	sub     *nats.Subscription // nil while no inbox is open
	base    string             // of the subjects, with the last dot
	closed  <-chan struct{}    // with sub
	arrived map[string]chan *nats.Msg
}

// Open opens an inbox with room for so many messages, at least one. All calls
// of Open have the same connection.
func (s *Shared) Open(conn *nats.Conn, room int) (*Inbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sub == nil {
		base := conn.NewInbox() + "."
		sub, err := conn.Subscribe(base+"*", s.deliver)
		if err != nil {
			return nil, err
		}
		s.sub, s.base, s.closed, s.arrived = sub, base, closedBy(sub), make(map[string]chan *nats.Msg)
	}
	s.opened++
	subject, arrived := s.base+strconv.FormatUint(s.opened, 36), make(chan *nats.Msg, room)
	s.arrived[subject] = arrived
	return &Inbox{subject, s.base + "*", arrived, s.closed, func() { s.leave(subject) }}, nil
}

// deliver delivers a message, unless its inbox is closed or full.
func (s *Shared) deliver(msg *nats.Msg) {
	s.mu.Lock()
	arrived := s.arrived[msg.Subject]
	s.mu.Unlock()
	select {
	case arrived <- msg:
	default:
	}
}

// leave closes an inbox, and with the last one the subscription.
func (s *Shared) leave(subject string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.arrived, subject); len(s.arrived) == 0 {
		_ = s.sub.Unsubscribe() // fails only if the connection is closed
		s.sub = nil
	}
}
