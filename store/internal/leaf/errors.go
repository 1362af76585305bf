package leaf

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// CallTimeout bounds every call but Tags, and each step of making a connection, so
// that a database that is stopped, not gone, is noticed. In the same time the caller
// gives up anyway.
const CallTimeout = 3 * time.Second

// MaxConns is the number of connections of one process. Each is busy for one round
// trip per reservation, and a database has to serve many processes.
const MaxConns = 8

// Unreachable says in plain words that the database does not answer, if err does; it
// returns nil for errors of another kind. The outcome of a statement is unknown then.
func Unreachable(err error) error {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns):
		return fmt.Errorf("the database's host is not known, check the DSN: %w", dns)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("the database cannot be reached; is it running, and are host and port right in the DSN? %w", op)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &op) && op.Timeout():
		return fmt.Errorf("the database did not answer in time: %w", err)
	}
	return nil
}
