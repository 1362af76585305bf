package inbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"sync"

	"github.com/nats-io/nats.go"
)

// shared is the inboxes of all requests of a connection, with one subscription
// among them: servers may limit the subscriptions of a connection.
type shared struct {
	conn *nats.Conn

	mu      sync.Mutex
	sub     *nats.Subscription // nil before the first inbox
	before  error              // the connection's last error before sub
	retired bool               // no inbox is opened any more
	base    string             // of the subjects, with the last dot
	life    context.Context    // of sub
	end     context.CancelCauseFunc
	arrived map[string]chan *nats.Msg
}

// ofConnection holds the shared inboxes of each open connection, so that any
// number of clients of a connection subscribe once.
var ofConnection sync.Map // *nats.Conn → *shared

// Open opens an inbox with room for so many messages, at least one. All inboxes
// opened so on a connection share a subscription, which ends with the
// connection.
func Open(conn *nats.Conn, room int) (*Inbox, error) {
	for {
		found, ok := ofConnection.Load(conn)
		if !ok {
			found, _ = ofConnection.LoadOrStore(conn, &shared{conn: conn, arrived: make(map[string]chan *nats.Msg)})
		}
		if box, err := found.(*shared).open(room); box != nil || err != nil {
			return box, err
		}
	}
}

// open opens an inbox, unless the subscription was retired. The end of its subject
// is random, too: whoever guesses it can make a worker reply to this request with
// IDs that they asked for, and a user that shares the inbox prefix can see the
// subjects of earlier requests.
func (s *shared) open(room int) (*Inbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sub == nil {
		if err := s.subscribe(); err != nil {
			s.forget()
			return nil, err
		}
	}
	if s.retired {
		return nil, nil
	}
	subject, arrived := s.base+rand.Text(), make(chan *nats.Msg, room)
	s.arrived[subject] = arrived
	return &Inbox{Subject: subject, Pattern: s.base + "*", arrived: arrived, life: s.life, shared: s}, nil
}

// subscribe makes the subscription. Its subject comes from the operating
// system's random source: copies of a process may have equal NUIDs, and would
// read each other's replies. The caller holds mu.
func (s *shared) subscribe() error {
	s.before = s.conn.LastError()
	base := cmp.Or(s.conn.Opts.InboxPrefix, "_INBOX") + "." + rand.Text() + "."
	sub, err := s.conn.Subscribe(base+"*", s.deliver)
	if err != nil {
		return err
	}
	s.sub, s.base = sub, base
	s.life, s.end = lifeOf(sub, s.forget)
	return nil
}

// forget makes the connection's next inbox subscribe again.
func (s *shared) forget() { ofConnection.CompareAndDelete(s.conn, s) }

// deliver delivers a message, unless its inbox is closed or full.
func (s *shared) deliver(msg *nats.Msg) {
	s.mu.Lock()
	arrived := s.arrived[msg.Subject]
	s.mu.Unlock()
	select {
	case arrived <- msg:
	default:
	}
}

func (s *shared) leave(subject string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.arrived, subject); s.retired && len(s.arrived) == 0 {
		_ = s.sub.Unsubscribe() // fails only if it has ended
	}
}

// retire retires the subscription if the connection had an error since it was
// made: the connection's next inbox subscribes again, and the last inbox that is
// closed ends it.
func (s *shared) retire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.conn.LastError(); err == nil || errors.Is(err, s.before) {
		return false
	}
	s.retired = true
	s.forget()
	return true
}

// drop ends the subscription, and all inboxes that share it, with that error.
func (s *shared) drop(refusal error) {
	s.forget()
	s.end(refusal)
	_ = s.sub.Unsubscribe() // fails only if it has ended
}
