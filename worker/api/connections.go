package api

import (
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// listener accepts a bounded number of connections. When there is no room for one more, the connection
// that has waited longest for its client is closed: for the first or next request, or for the rest of
// one's header. So those who open connections and do not use them are the first to lose them. If all are
// being answered, the new one is refused.
type listener struct {
	net.Listener
	most   int
	silent bool // clients do not understand plain HTTP

	mu   sync.Mutex
	open []*conn

	refused, evicted atomic.Int64
}

// conn is one of the connections. Since says since when its client is waited for, by [elapsed], 0 while
// a request is being answered.
type conn struct {
	net.Conn
	listener *listener
	since    atomic.Int64
	index    int // in the listener's list, which guards it; -1: not any more
}

// processStart is the origin of [elapsed].
var processStart = time.Now()

// elapsed is the present moment, never 0.
func elapsed() int64 { return max(1, int64(time.Since(processStart))) }

func newListener(l net.Listener, most int, silent bool) *listener {
	return &listener{Listener: l, most: most, silent: silent}
}

// Accept is part of net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		plain, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.admit(plain); c != nil {
			return c, nil
		}
		l.refuse(plain)
	}
}

// admit returns the connection as one of the listener's, or nil if there is no room.
func (l *listener) admit(plain net.Conn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.most {
		idle := l.longestWaiting()
		if idle == nil {
			return nil
		}
		l.evicted.Add(1)
		l.remove(idle)
		_ = idle.Conn.Close() // the server notices, and closes it too
	}
	c := &conn{Conn: plain, listener: l, index: len(l.open)}
	c.since.Store(elapsed())
	l.open = append(l.open, c)
	return c
}

// samples is how many connections are looked at to find one that has waited long: not all, because that
// would make it the dearer the more there are, for somebody who opens many.
const samples = 64

// longestWaiting returns the connection that has waited longest of all, or of some of many; nil if none
// does. It needs mu.
func (l *listener) longestWaiting() (longest *conn) {
	least := int64(0)
	for i := range min(samples, len(l.open)) {
		if len(l.open) > samples {
			i = rand.IntN(len(l.open))
		}
		if since := l.open[i].since.Load(); since != 0 && (longest == nil || since < least) {
			longest, least = l.open[i], since
		}
	}
	return longest
}

// remove takes a connection off the list. It needs mu.
func (l *listener) remove(c *conn) {
	if c.index < 0 {
		return
	}
	last := len(l.open) - 1
	l.open[c.index], l.open[last].index = l.open[last], c.index
	l.open[last] = nil
	l.open = l.open[:last]
	c.index = -1
}

// busy is the answer to who is refused.
const busy = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

// refuse closes a connection. What it says is less than a socket buffers, so it does not wait.
func (l *listener) refuse(c net.Conn) {
	l.refused.Add(1)
	if !l.silent {
		_ = c.SetWriteDeadline(time.Now().Add(stopGrace))
		_, _ = io.WriteString(c, busy)
	}
	_ = c.Close()
}

// closeWaiting closes the connections of clients that are waited for.
func (l *listener) closeWaiting() {
	l.mu.Lock()
	all := slices.Clone(l.open)
	l.mu.Unlock()
	for _, c := range all {
		if c.since.Load() != 0 {
			_ = c.Close()
		}
	}
}

func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// Close is part of net.Conn.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.remove(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// noteState notes what a connection does. The server says that one is active when it has read the header
// of a request.
func noteState(c net.Conn, state http.ConnState) {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	one, ok := c.(*conn)
	if !ok {
		return
	}
	switch state {
	case http.StateActive:
		one.since.Store(0)
	case http.StateIdle:
		one.since.Store(elapsed())
	}
}
