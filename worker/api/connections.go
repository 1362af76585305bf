package api

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// connections are those that are open. netutil.LimitListener bounds their
// number, and net/http the time that each may take. Neither keeps a flood of
// strangers out, so a connection is a stranger's until a request on it is
// admitted; and when the last place is taken, the oldest stranger's is closed to
// make room for the next.
type connections struct {
	most int

	mu        sync.Mutex
	open      map[net.Conn]*list.Element // its place among strangers; nil: a caller's
	strangers list.List                  // of net.Conn, the oldest first
	evicted   int64
}

func newConnections(most int) *connections {
	return &connections{most: most, open: make(map[net.Conn]*list.Element)}
}

// connKey is the key of a connection in the context of its requests.
type connKey struct{}

// withConn is the server's ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// note is the server's ConnState.
func (s *connections) note(c net.Conn, state http.ConnState) {
	if state != http.StateNew && state != http.StateClosed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == http.StateClosed {
		s.admit(c)
		delete(s.open, c)
		return
	}
	s.open[c] = s.strangers.PushBack(c)
	if len(s.open) >= s.most && s.strangers.Len() > 1 { // the new one is a stranger's
		s.evicted++
		s.closeOldest()
	}
}

// admitted notes that a request on the connection was admitted.
func (s *connections) admitted(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admit(c)
}

// admit needs mu. An evicted connection has no place any more.
func (s *connections) admit(c net.Conn) {
	if place := s.open[c]; place != nil {
		s.strangers.Remove(place)
		s.open[c] = nil
	}
}

// closeOldest closes the oldest stranger's connection, which net/http notices.
// It needs mu.
func (s *connections) closeOldest() {
	c := s.strangers.Remove(s.strangers.Front()).(net.Conn)
	delete(s.open, c)
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn() // without a goodbye, for which the client could be waited
	}
	_ = c.Close()
}

// closeStrangers closes all connections without an admitted request.
func (s *connections) closeStrangers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.strangers.Len() > 0 {
		s.closeOldest()
	}
}

// counts returns how many are open, how many of these are callers', and how
// many strangers' were closed to make room.
func (s *connections) counts() (open, callers int, evicted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open), len(s.open) - s.strangers.Len(), s.evicted
}
