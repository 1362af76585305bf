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

// Telling a frozen server from a busy server. Unanswered pings prove nothing:
// the replies of a busy server queue behind requests. But those requests arrive
// from a busy server, and nothing arrives from a frozen server. So the test is
// whether bytes arrive while pings are sent, which a healthy server answers at
// once.
const (
	// Between pings, and of a wait for bytes.
	silenceTick = 500 * time.Millisecond
	frozenTicks = 4               // in a row without a byte: 2 seconds
	lateTick    = 2 * silenceTick // this process was paused or starved
)

// watchedDialer makes TCP connections that it closes when the server is frozen,
// if there is another server to connect to.
type watchedDialer struct {
	name   string
	log    *zap.Logger
	others atomic.Bool // there are other servers
}

// countServers records whether there are other servers.
func (d *watchedDialer) countServers(c *nats.Conn) { d.others.Store(len(c.ServerPool()) > 1) }

// Dial implements nats.CustomDialer.
func (d *watchedDialer) Dial(network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: nats.DefaultTimeout}
	// The dialer of nats.go has no context.
	conn, err := dialer.DialContext(context.Background(), network, address)
	if err != nil {
		return nil, err
	}
	return d.watch(conn), nil
}

func (d *watchedDialer) watch(conn net.Conn) net.Conn {
	return &watchedConn{Conn: conn, watchedDialer: d}
}

// watchedConn is a connection whose reader detects silence, except while
// nats.go has a deadline of its own, as when it connects.
type watchedConn struct {
	net.Conn
	*watchedDialer
	limited atomic.Bool
}

// SetDeadline implements net.Conn.
func (c *watchedConn) SetDeadline(t time.Time) error {
	c.limited.Store(!t.IsZero())
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *watchedConn) SetReadDeadline(t time.Time) error {
	c.limited.Store(!t.IsZero())
	return c.Conn.SetReadDeadline(t)
}

var errFrozen = errors.New("the server is silent")

// Read reads, and closes the connection if the server is frozen. nats.go may be
// blocked in a write to it, with its lock held, and only that ends the write. A
// tick that ends late proves nothing, nor do those before it: bytes may have
// arrived that were not read.
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
			c.log.Warn("NATS server silent, switching to another",
				zap.String("connection", c.name), zap.Stringer("server", c.RemoteAddr()), zap.Duration("for", frozenTicks*silenceTick))
			return 0, errors.Join(errFrozen, c.Close())
		}
	}
	return c.Conn.Read(p)
}
