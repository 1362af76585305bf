package api

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// connections are the open connections. netutil.LimitListener bounds their
// number, and net/http their times. Neither keeps out a flood of strangers, so
// a connection is a stranger's until a request on it is admitted. When the last
// place is taken, an old connection is closed: the oldest stranger's; or, if
// the newest is the only stranger's, the longest idle connection of a caller.
type connections struct {
	most int

	mu        sync.Mutex
	open      map[net.Conn]listEntry
	strangers list.List // of net.Conn, oldest first
	idle      list.List // callers', oldest first
	evicted   int64
}

// listEntry is a connection's entry in a list. Busy connections of callers are
// in no list.
type listEntry struct {
	in *list.List
	at *list.Element
}

func newConnections(most int) *connections {
	return &connections{most: most, open: make(map[net.Conn]listEntry)}
}

// connKey is the key of a connection in the context of its requests.
type connKey struct{}

// withConn is the server's ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// note is the server's ConnState.
func (s *connections) note(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Evicted connections are not open.
	at, isOpen := s.open[c]
	switch {
	case state == http.StateNew:
		s.move(c, &s.strangers)
		s.makeRoom()
	case state == http.StateClosed:
		s.move(c, nil)
		delete(s.open, c)
	case state == http.StateIdle && isOpen && at.in == nil:
		s.move(c, &s.idle)
		s.makeRoom()
	case state == http.StateActive && at.in == &s.idle:
		s.move(c, nil)
	}
}

// admitted records that a request on the connection was admitted.
func (s *connections) admitted(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, isOpen := s.open[c]; isOpen {
		s.move(c, nil)
	}
}

// move moves a connection to the end of a list, or to none. It needs mu.
func (s *connections) move(c net.Conn, to *list.List) {
	if at := s.open[c]; at.in != nil {
		at.in.Remove(at.at)
	}
	s.open[c] = listEntry{}
	if to != nil {
		s.open[c] = listEntry{to, to.PushBack(c)}
	}
}

// makeRoom closes a connection if the last place is taken and another
// connection is idle or has no admitted request. It needs mu.
func (s *connections) makeRoom() {
	switch {
	case len(s.open) < s.most:
	case s.strangers.Len() > 1:
		s.evicted++
		s.closeOldest(&s.strangers)
	case s.idle.Len() > 0:
		s.evicted++
		s.closeOldest(&s.idle)
	}
}

// closeOldest closes the oldest connection of a list; net/http detects that. It
// needs mu.
func (s *connections) closeOldest(of *list.List) {
	c := of.Remove(of.Front()).(net.Conn)
	delete(s.open, c)
	if secure, ok := c.(*tls.Conn); ok {
		// Without a TLS goodbye, which could wait for the client.
		c = secure.NetConn()
	}
	_ = c.Close()
}

// closeStrangers closes all connections without an admitted request.
func (s *connections) closeStrangers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.strangers.Len() > 0 {
		s.closeOldest(&s.strangers)
	}
}

// counts returns the number of open connections, of busy connections of
// callers, and of evicted connections.
func (s *connections) counts() (open, busy int, evicted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open), len(s.open) - s.strangers.Len() - s.idle.Len(), s.evicted
}
