// Package httpguard protects an HTTP server: it bounds the connections, and
// recognizes requests that pages of other sites make, see [Trusted].
//
//	conns := httpguard.New(256)
//	server := &http.Server{ConnState: conns.Note, ConnContext: httpguard.WithConn}
//	err := server.Serve(conns.Listen(listener))
package httpguard

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
)

// Connections are the open connections. netutil.LimitListener bounds their
// number, and net/http their times. Neither keeps out a flood of strangers, so
// a connection is a stranger's until a request on it is admitted. When the last
// place is taken, an old connection is closed: the oldest stranger's; or, if
// the newest is the only stranger's, the longest idle connection of a caller.
type Connections struct {
	most int

	mu        sync.Mutex
	open      map[net.Conn]listEntry
	strangers list.List // of net.Conn, oldest first
	idle      list.List // callers', oldest first
	evicted   int64

	draining atomic.Bool
}

// listEntry is a connection's entry in a list. Busy connections of callers are
// in no list.
type listEntry struct {
	in *list.List
	at *list.Element
}

// New bounds the connections to most of them.
func New(most int) *Connections {
	return &Connections{most: most, open: make(map[net.Conn]listEntry)}
}

// Listen bounds the connections that a listener accepts.
func (s *Connections) Listen(l net.Listener) net.Listener { return netutil.LimitListener(l, s.most) }

// connKey is the key of a connection in the context of its requests.
type connKey struct{}

// WithConn is the server's ConnContext.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// Note is the server's ConnState.
func (s *Connections) Note(c net.Conn, state http.ConnState) {
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

// Admit records that a request was admitted, by its context.
func (s *Connections) Admit(ctx context.Context) {
	c, ok := ctx.Value(connKey{}).(net.Conn)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, isOpen := s.open[c]; isOpen {
		s.move(c, nil)
	}
}

// move moves a connection to the end of a list, or to none. It needs mu.
func (s *Connections) move(c net.Conn, to *list.List) {
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
func (s *Connections) makeRoom() {
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
func (s *Connections) closeOldest(of *list.List) {
	c := of.Remove(of.Front()).(net.Conn)
	delete(s.open, c)
	if secure, ok := c.(*tls.Conn); ok {
		// Without a TLS goodbye, which could wait for the client.
		c = secure.NetConn()
	}
	_ = c.Close()
}

// CloseStrangers closes all connections without an admitted request.
func (s *Connections) CloseStrangers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.strangers.Len() > 0 {
		s.closeOldest(&s.strangers)
	}
}

// drainPoll is the interval at which Drain looks for open connections.
const drainPoll = 5 * time.Millisecond

// Drain lets callers leave before a server's Shutdown, which cuts idle
// connections: a client that sends a request at that moment sees a broken
// connection, and cannot know whether it was answered. From now on each answer
// is the last of its connection, if the handler calls Header. Drain returns
// once no connection is open, or after the given time.
//
// It first closes the listener. The kernel resets connections that wait to be
// accepted at that moment, and callers that have left would keep connecting.
func (s *Connections) Drain(l net.Listener, within time.Duration) {
	_ = l.Close()
	s.draining.Store(true)
	ticker := time.NewTicker(drainPoll)
	defer ticker.Stop()
	end := time.After(within)
	for {
		if open, _, _ := s.Counts(); open == 0 {
			return
		}
		select {
		case <-end:
			return
		case <-ticker.C:
		}
	}
}

// closing is the value of a Connection header.
var closing = []string{"close"}

// Header adds to an answer's header, before it is written, that the connection
// ends with it, if the connections are being drained.
func (s *Connections) Header(h http.Header) {
	if s.draining.Load() {
		h["Connection"] = closing
	}
}

// Counts returns the number of open connections, of busy connections of
// callers, and of evicted connections.
func (s *Connections) Counts() (open, busy int, evicted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open), len(s.open) - s.strangers.Len() - s.idle.Len(), s.evicted
}

// Refusal is the text of the answer, with status 403, to a request with an
// untrusted Host header.
const Refusal = "untrusted Host header; allowed are localhost, this machine's name, IP addresses and configured names"

// Trusted reports whether a Host header is empty, an IP address, a name of this
// machine, or in names. Any other one may come from DNS rebinding: a page that
// gives its own name this machine's address. To a browser, such a page and this
// server are the same site, so the page may read the answers. Every HTTP server
// of a process refuses these requests, unless its callers need a token or it is
// public on purpose.
func Trusted(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" || strings.EqualFold(host, "localhost") {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	own, err := os.Hostname()
	return err == nil && strings.EqualFold(host, own) ||
		slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(host, name) })
}
