package natsconn

import (
	"context"
	"errors"
	"net"
	"os"
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
	silenceTick = 500 * time.Millisecond // how long bytes are waited for at a time, and how often pings are sent
	frozenTicks = 4                      // in a row without a byte: 2 seconds
	lateTick    = 2 * silenceTick        // this process was paused or starved, not the server
)

// watchedDialer makes TCP connections that are closed when the server is frozen and there is
// another one to go to.
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

func (d *watchedDialer) watch(conn net.Conn) net.Conn {
	return &watchedConn{Conn: conn, watchedDialer: d}
}

// watchedConn is a connection whose reader watches for silence, except while nats.go has a
// deadline of its own, as when it connects.
type watchedConn struct {
	net.Conn
	*watchedDialer
	limited atomic.Bool
}

// SetDeadline is part of net.Conn.
func (c *watchedConn) SetDeadline(t time.Time) error {
	c.limited.Store(!t.IsZero())
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline is part of net.Conn.
func (c *watchedConn) SetReadDeadline(t time.Time) error {
	c.limited.Store(!t.IsZero())
	return c.Conn.SetReadDeadline(t)
}

var errFrozen = errors.New("nothing arrives from the server")

// Read reads, and closes the connection if the server is frozen: nats.go may be stuck in a write
// to it, with its lock held, and only that ends the write. A tick that ends late proves
// nothing, since what had arrived may not have been read; nor do those before it.
func (c *watchedConn) Read(p []byte) (n int, err error) {
	for silent := 0; !c.limited.Load(); {
		began := time.Now()
		if err := c.Conn.SetReadDeadline(began.Add(silenceTick)); err != nil {
			return 0, err
		}
		if n, err = c.Conn.Read(p); !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if silent++; time.Since(began) > lateTick {
			silent = 0
		}
		if silent >= frozenTicks && c.others.Load() {
			c.log.Warn("nothing arrives from the NATS server, going to another one",
				zap.String("connection", c.name), zap.Stringer("server", c.RemoteAddr()), zap.Duration("for", frozenTicks*silenceTick))
			return 0, errors.Join(errFrozen, c.Close())
		}
	}
	return c.Conn.Read(p)
}
