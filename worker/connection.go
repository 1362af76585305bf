package worker

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

// flushTimeout is how long a server may take to answer while the process stops.
const flushTimeout = 2 * time.Second

// flush waits until the server has all that was sent. A closed connection has nothing to
// flush.
func flush(conn *nats.Conn) error {
	return unlessClosed(conn.FlushTimeout(flushTimeout))
}

func unsubscribe(sub *nats.Subscription) error { return unlessClosed(sub.Unsubscribe()) }

// unlessClosed drops the error of a connection that is closed: with it, whatever was to be
// ended has ended.
func unlessClosed(err error) error {
	if errors.Is(err, nats.ErrConnectionClosed) {
		return nil
	}
	return err
}
