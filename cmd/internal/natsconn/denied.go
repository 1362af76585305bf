package natsconn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
)

// DeniedError is the error for a right that the server refuses the user.
//
// It does not wrap what failed because of it, as a rule a timeout: whoever tries that
// again is denied again.
type DeniedError struct {
	// What is denied, in the server's words: Publish to "a.b".
	What string

	// Missing is the resource that could not be created; nil if none was to be.
	Missing fmt.Stringer
}

func (e *DeniedError) Error() string {
	if e.Missing != nil {
		return fmt.Sprintf("%s is missing: the NATS server refuses this user the right to create it: %s", e.Missing, e.What)
	}
	return "the NATS server refuses this user a right: " + e.What
}

// Problem is part of [problem.Problem].
func (e *DeniedError) Problem() (problem.Kind, []any) {
	switch {
	case e.Missing != nil:
		return problem.DeniedCreation, nil
	case strings.Contains(e.What, `Subscription to "_INBOX`): // where replies are sent to by default
		return problem.DeniedInbox, nil
	}
	return problem.Denied, nil
}

// Denied makes a DeniedError of a server's permission violation. Failed is what came of
// it; nil if nothing did that anybody noticed.
func Denied(violation, failed error) *DeniedError {
	_, what, _ := strings.Cut(violation.Error(), nats.ErrPermissionViolation.Error()+": ")
	denied := &DeniedError{What: what}
	var missing *kv.MissingError
	if errors.As(failed, &missing) {
		denied.Missing = missing.Resource
	}
	return denied
}

// WhenDenied returns a context that ends as soon as the server denies the user of one of
// the connections something: such a request is never answered, and would look like a
// timeout. The function explains the error of what was done meanwhile, nil included: that
// a subscription was denied is no error to whoever made it.
func WhenDenied(ctx context.Context, conns ...*nats.Conn) (context.Context, func(error) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	for _, conn := range conns {
		next := conn.ErrorHandler()
		conn.SetErrorHandler(func(c *nats.Conn, sub *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) && ctx.Err() == nil {
				cancel(err)
			} else if next != nil {
				next(c, sub, err)
			}
		})
	}
	return ctx, func(err error) error {
		defer cancel(nil)
		signs := []error{context.Cause(ctx)}
		for _, conn := range conns {
			signs = append(signs, conn.LastError()) // the handler may not have been called yet
		}
		signs = append(signs, err) // on a connection of the worker's own
		for _, sign := range signs {
			if errors.Is(sign, nats.ErrPermissionViolation) {
				return Denied(sign, err)
			}
		}
		return err
	}
}
