package api

import (
	"container/list"
	"context"
	"crypto/tls"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// listener accepts a bounded number of connections. When there is no room for one more, a
// connection is closed whose client is waited for: the oldest on which no request was ever
// admitted (a stranger's), or else the caller's that has waited longest. If all are being
// answered, the new one is refused.
//
// A client is waited for unless the source is being asked. The states of net/http do not decide
// that: it waits for clients in all of them, for the rest of a body, or until an answer is read.
//
// The listener also bounds the time for which a client is waited for. The timeouts of net/http
// would do, too; but they set deadlines several times for each request, which costs a tenth of it.
// Here a loop looks now and then.
type listener struct {
	net.Listener
	most   int
	silent bool          // clients do not understand plain HTTP
	limit  time.Duration // for which a client is waited for

	mu        sync.Mutex
	open      map[*conn]struct{}
	strangers list.List // those of strangers; the oldest first

	refused, evicted atomic.Int64
}

// conn is one of the connections.
type conn struct {
	net.Conn
	listener *listener
	stranger *list.Element // nil: a caller's
	since    atomic.Int64  // by elapsed: from when on its client is waited for
}

// connKey is the key of a connection in the context of its requests.
type connKey struct{}

// processStart is the origin of [elapsed].
var processStart = time.Now()

// never is later than any moment: while the source is asked.
const never = math.MaxInt64

// elapsed is the present moment.
func elapsed() int64 { return int64(time.Since(processStart)) }

func newListener(l net.Listener, cfg Config) *listener {
	return &listener{
		Listener: l, most: cfg.Connections, silent: cfg.Certificate != "", limit: cfg.clientTimeout, open: make(map[*conn]struct{}),
	}
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
		_ = l.close(longest)
	}
	c := &conn{Conn: plain, listener: l}
	c.since.Store(elapsed())
	c.stranger = l.strangers.PushBack(c)
	l.open[c] = struct{}{}
	return c
}

// samples is how many connections of callers are looked at to find one that has waited long: not
// all, because that would make it the dearer the more there are, for somebody who opens many.
const samples = 64

// longestWaiting returns the connection that makes room for another one, or nil. It needs mu.
func (l *listener) longestWaiting() (longest *conn) {
	if oldest := l.strangers.Front(); oldest != nil {
		return oldest.Value.(*conn)
	}
	least, looks := elapsed(), 0
	for c := range l.open { // which begins anywhere
		if since := c.since.Load(); since <= least {
			longest, least = c, since
		}
		if looks++; looks == samples {
			break
		}
	}
	return longest
}

// close closes a connection, which the server notices, and closes it too. It needs mu.
func (l *listener) close(c *conn) error {
	delete(l.open, c)
	if c.stranger != nil {
		l.strangers.Remove(c.stranger)
	}
	return c.Conn.Close()
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
		l.closeWaiting(l.limit)
	}
}

// closeWaiting closes the connections of clients that are waited for, and have been for some time.
func (l *listener) closeWaiting(some time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := elapsed() - int64(some)
	for c := range l.open {
		if c.since.Load() <= before {
			_ = l.close(c)
		}
	}
}

func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// asks is called before the source is asked for IDs, which the client may have.
func (c *conn) asks() {
	c.since.Store(never)
	if c.stranger != nil {
		c.listener.mu.Lock()
		defer c.listener.mu.Unlock()
		c.listener.strangers.Remove(c.stranger)
		c.stranger = nil
	}
}

// answered is called when the source has answered. The client has a moment to read that before it
// is waited for.
func (c *conn) answered() { c.since.Store(elapsed() + int64(time.Second)) }

// Close is part of net.Conn.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	return c.listener.close(c)
}

// noteState notes that an answer is written, and the next request is waited for.
func noteState(plain net.Conn, state http.ConnState) {
	if state == http.StateIdle {
		connOf(plain).since.Store(elapsed())
	}
}

// connOf returns the listener's connection beneath one that the server has.
func connOf(plain net.Conn) *conn {
	if secure, ok := plain.(*tls.Conn); ok {
		plain = secure.NetConn()
	}
	return plain.(*conn)
}
