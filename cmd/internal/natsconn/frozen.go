package natsconn

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// How a frozen server is told from a busy one. Pings that are not answered tell nothing: the
// answers of a busy server queue behind requests. But of a busy server those requests arrive,
// and of a frozen one nothing at all. So what counts is whether bytes arrive while pings are
// sent that a server in good health answers at once.
const (
	silenceTick = 500 * time.Millisecond // how often bytes are counted, and pings are sent
	frozenTicks = 4                      // in a row without a byte: 2 to 2.5 seconds
	lateTick    = 2 * silenceTick        // this process was paused or starved, not the server
)

// silence counts for how long nothing has arrived on a connection.
type silence struct {
	read  int64     // bytes
	ticks int       // in a row, and in time, at which no more had arrived
	at    time.Time // of the latest tick
}

// tick reports whether the server is frozen. A tick that comes late proves nothing, since
// what would have arrived may not have been read; nor do those before it.
func (s *silence) tick(now time.Time, read int64) bool {
	late := now.Sub(s.at) > lateTick
	if s.at = now; late || read != s.read {
		s.read, s.ticks = read, 0
		return false
	}
	s.ticks++
	return s.ticks >= frozenTicks
}

// watchedDialer makes TCP connections that are closed when the server is frozen and there is
// another one to go to. Closing the socket is what works in any case: nats.go may be stuck in
// a write to it, with the connection locked.
type watchedDialer struct {
	name   string
	log    *zap.Logger
	others atomic.Bool // there are other servers
}

// learn finds out whether there are other servers.
func (d *watchedDialer) learn(c *nats.Conn) { d.others.Store(len(c.ServerPool()) > 1) }

// Dial is part of nats.CustomDialer.
func (d *watchedDialer) Dial(network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: nats.DefaultTimeout}
	conn, err := dialer.DialContext(context.Background(), network, address) // nats.go has no context
	if err != nil {
		return nil, err
	}
	return d.watch(conn), nil
}

// watch watches a connection until it is closed.
func (d *watchedDialer) watch(conn net.Conn) net.Conn {
	w := &watchedConn{Conn: conn, closed: make(chan struct{})}
	go d.run(w)
	return w
}

func (d *watchedDialer) run(conn *watchedConn) {
	ticker := time.NewTicker(silenceTick)
	defer ticker.Stop()
	since := silence{at: time.Now()}
	for {
		select {
		case <-conn.closed:
			return
		case <-ticker.C:
		}
		if since.tick(time.Now(), conn.read.Load()) && d.others.Load() {
			d.log.Warn("nothing arrives from the NATS server, going to another one",
				zap.String("connection", d.name), zap.Stringer("server", conn.RemoteAddr()), zap.Duration("for", frozenTicks*silenceTick))
			_ = conn.Close() // it is given up in any case
			return
		}
	}
}

// watchedConn counts what arrives on a connection.
type watchedConn struct {
	net.Conn
	read   atomic.Int64
	once   sync.Once
	closed chan struct{}
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// Close ends the watching too.
func (c *watchedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
