package api

import (
	"context"
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
//
// It also bounds the time that each takes. The timeouts of net/http would do, too; but they set deadlines
// several times for each request, which costs a tenth of it. Here somebody looks now and then.
type listener struct {
	net.Listener
	most   int
	silent bool          // clients do not understand plain HTTP
	header time.Duration // for a header
	answer time.Duration // for all of a request behind it

	mu   sync.Mutex
	open []*conn
	now  atomic.Int64 // by elapsed, as of the latest look

	refused, evicted atomic.Int64
}

// conn is one of the connections.
type conn struct {
	net.Conn
	listener *listener
	phase    atomic.Int32
	limit    atomic.Int64 // by elapsed: when it is closed unless there is another phase by then
	since    atomic.Int64 // by elapsed: since when its client is waited for; 0 while a request is being answered
	index    int          // in the listener's list, which guards it; -1: not any more
}

// The phases of a connection.
const (
	idle      int32 = iota // nothing has come
	header                 // part of a header has come, or, in a new connection, should come
	answering              // from the end of a header to the end of the answer
)

// processStart is the origin of [elapsed].
var processStart = time.Now()

// elapsed is the present moment, never 0.
func elapsed() int64 { return max(1, int64(time.Since(processStart))) }

func newListener(l net.Listener, cfg Config) *listener {
	own := &listener{
		Listener: l, most: cfg.Connections, silent: cfg.Certificate != "",
		header: cfg.headerTimeout, answer: cfg.Wait + cfg.restTimeout,
	}
	own.now.Store(elapsed())
	return own
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
		longest := l.longestWaiting()
		if longest == nil {
			return nil
		}
		l.evicted.Add(1)
		l.remove(longest)
		_ = longest.Conn.Close() // the server notices, and closes it too
	}
	c := &conn{Conn: plain, listener: l, index: len(l.open)}
	c.enter(header, l.header)
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

// lookEvery is how often it is looked for connections whose time is over, which may have that much more.
const lookEvery = 500 * time.Millisecond

// watch closes connections whose time is over, until ctx ends.
func (l *listener) watch(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := elapsed()
		l.now.Store(now)
		l.closeIf(func(c *conn) bool { return now > c.limit.Load() })
	}
}

// closeWaiting closes the connections of clients that are waited for.
func (l *listener) closeWaiting() {
	l.closeIf(func(c *conn) bool { return c.since.Load() != 0 })
}

func (l *listener) closeIf(over func(*conn) bool) {
	l.mu.Lock()
	all := slices.Clone(l.open)
	l.mu.Unlock()
	for _, c := range all {
		if over(c) {
			_ = c.Close()
		}
	}
}

func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// enter begins a phase, which may last for some time.
func (c *conn) enter(phase int32, limit time.Duration) {
	c.limit.Store(c.listener.now.Load() + int64(limit))
	c.phase.Store(phase)
}

// Read is part of net.Conn. It notes when a header begins.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.phase.Load() == idle {
		c.enter(header, c.listener.header)
	}
	return n, err
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
func noteState(plain net.Conn, state http.ConnState) {
	c, ok := plain.(*conn)
	if !ok {
		if secure, is := plain.(interface{ NetConn() net.Conn }); is {
			c, ok = secure.NetConn().(*conn)
		}
	}
	switch {
	case !ok:
	case state == http.StateActive:
		c.enter(answering, c.listener.answer)
		c.since.Store(0)
	case state == http.StateIdle:
		c.enter(idle, idleTimeout)
		c.since.Store(elapsed())
	}
}
