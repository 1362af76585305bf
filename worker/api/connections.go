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
// admitted; and when the last place is taken, a connection makes room for the
// next: the oldest stranger's, or, if the new one is the only one, that of the
// caller that has been idle for longest.
type connections struct {
	most int

	mu        sync.Mutex
	open      map[net.Conn]place
	strangers list.List // of net.Conn, the oldest first
	idle      list.List // callers', the same
	evicted   int64
}

// place is where a connection is in a list. A caller's that is busy is in none.
type place struct {
	in *list.List
	at *list.Element
}

func newConnections(most int) *connections {
	return &connections{most: most, open: make(map[net.Conn]place)}
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
	at, isOpen := s.open[c] // one that made room is not
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

// admitted notes that a request on the connection was admitted.
func (s *connections) admitted(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, isOpen := s.open[c]; isOpen {
		s.move(c, nil)
	}
}

// move puts a connection at the end of a list, or in none. It needs mu.
func (s *connections) move(c net.Conn, to *list.List) {
	if at := s.open[c]; at.in != nil {
		at.in.Remove(at.at)
	}
	s.open[c] = place{}
	if to != nil {
		s.open[c] = place{to, to.PushBack(c)}
	}
}

// makeRoom closes a connection if the last place is taken and another one waits
// for its client. It needs mu.
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

// closeOldest closes the oldest connection of a list, which net/http notices. It
// needs mu.
func (s *connections) closeOldest(of *list.List) {
	c := of.Remove(of.Front()).(net.Conn)
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
		s.closeOldest(&s.strangers)
	}
}

// counts returns how many are open, how many of these are callers' that are
// busy, and how many made room.
func (s *connections) counts() (open, busy int, evicted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open), len(s.open) - s.strangers.Len() - s.idle.Len(), s.evicted
}
