package natsconn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/subject"
)

// DeniedError is the error for a right that the server denies the user.
//
// It does not wrap the resulting error, usually a timeout: a retry would be
// denied too.
type DeniedError struct {
	// The denied right, quoted from the server: Publish to "a.b".
	What string

	// Missing is the resource that could not be created; may be nil.
	Missing fmt.Stringer
}

func (e *DeniedError) Error() string {
	if e.Missing != nil {
		return fmt.Sprintf("%s is missing, and this NATS user may not create it: %s", e.Missing, e.What)
	}
	return "the NATS server denies this user a right: " + e.What
}

// Problem implements [problem.Problem].
func (e *DeniedError) Problem() (problem.Kind, []any) {
	switch {
	case e.Missing != nil:
		return problem.DeniedCreation, nil
	// Replies arrive there by default.
	case strings.Contains(e.What, `Subscription to "_INBOX`):
		return problem.DeniedInbox, nil
	}
	return problem.Denied, nil
}

// Denied makes a DeniedError of a server's permission violation. failed is the
// resulting error; it may be nil.
func Denied(violation, failed error) *DeniedError {
	_, what, _ := strings.Cut(violation.Error(), nats.ErrPermissionViolation.Error()+": ")
	denied := &DeniedError{What: what}
	var missing *kv.MissingError
	if errors.As(failed, &missing) {
		denied.Missing = missing.Resource
	}
	return denied
}

// Own reports whether a violation is about a subject of this process. A process
// that answers publishes to subjects that its callers choose, too: that the
// server denies those is the callers' mistake.
type Own func(rights.Violation) bool

// OwnAny is the Own of a connection without callers.
func OwnAny(rights.Violation) bool { return true }

// OwnSubscriptions is the Own of a connection that publishes only replies.
func OwnSubscriptions(v rights.Violation) bool { return v.Subscribe }

// OwnOf returns the Own of a connection with these needs, in a JetStream domain;
// "" is the account's own, and * any. It calls needs for each violation.
func OwnOf(needs func() rights.Rights, domain string) Own {
	return func(v rights.Violation) bool {
		if parts := strings.SplitN(v.Subject, ".", 4); len(parts) == 4 && domain != "" && subject.Covers("$JS."+domain+".API", strings.Join(parts[:3], ".")) {
			v.Subject = "$JS.API." + parts[3]
		}
		return v.Subscribe || needs().Includes(v.Subject)
	}
}

// WhenDenied returns a context that ends when the server denies the user of one
// of the connections a right of its own. A denied request is never answered, and
// would look like a timeout. The function explains the error of the work under
// that context. It takes nil too, because a denied subscription is not an error
// for the subscriber.
func WhenDenied(ctx context.Context, own Own, conns ...*nats.Conn) (context.Context, func(error) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	isOwn := func(err error) bool {
		v, ok := rights.ViolationOf(err)
		return ok && own(v)
	}
	for _, conn := range conns {
		next := conn.ErrorHandler()
		conn.SetErrorHandler(func(c *nats.Conn, sub *nats.Subscription, err error) {
			if isOwn(err) && ctx.Err() == nil {
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
			// The handler may not have run yet.
			signs = append(signs, conn.LastError())
		}
		signs = append(signs, err) // on a connection of the worker's own
		for _, sign := range signs {
			if isOwn(sign) {
				return Denied(sign, err)
			}
		}
		return err
	}
}
