package leaf

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// ExplainUnreachable says in plain words that the database does not answer, if that is
// what err means; for other errors it returns nil. The outcome of a statement is unknown
// then.
func ExplainUnreachable(err error) error {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns):
		return fmt.Errorf("the database's host is not known, check the DSN: %w", dns)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("the database cannot be reached; is it running, and are host and port in the DSN right? %w", op)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &op) && op.Timeout():
		return fmt.Errorf("the database did not answer in time: %w", err)
	}
	return nil
}
