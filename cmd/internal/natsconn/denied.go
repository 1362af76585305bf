package natsconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/subject"
	"github.com/idworker/idworker/worker/loadmsg"
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

// IsDenied reports whether an error is about a right that the user lacks.
func IsDenied(err error) bool {
	missing, refused := new(RightsError), new(DeniedError)
	return errors.As(err, &missing) || errors.As(err, &refused)
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
func OwnAny(v rights.Violation) bool { return !durability.Optional(v.Subject) && !isClaim(v) }

// isClaim reports whether a violation is about publishing claims about the register
// to loaders. A user with the rights of version 0.2.0 may not: its process works
// without, because loaders ask.
func isClaim(v rights.Violation) bool { return !v.Subscribe && loadmsg.IsLoadersSubject(v.Subject) }

// OwnSubscriptions is the Own of a connection that publishes only replies.
func OwnSubscriptions(v rights.Violation) bool { return v.Subscribe }

// OwnOf returns the Own of a connection that needs these rights, in a JetStream
// domain; "" is the account's own, and * any.
func OwnOf(need rights.Rights, domain string) Own {
	return func(v rights.Violation) bool {
		if parts := strings.SplitN(v.Subject, ".", 4); len(parts) == 4 && domain != "" && subject.Covers("$JS."+domain+".API", strings.Join(parts[:3], ".")) {
			v.Subject = "$JS.API." + parts[3]
		}
		return v.Subscribe || need.Includes(v.Subject)
	}
}

// WhenDenied is [Denials.When] for work that uses the connections alone.
func WhenDenied(ctx context.Context, own Own, conns ...*nats.Conn) (context.Context, func(error) error) {
	return WatchDenials(conns...).When(ctx, own)
}

// Denials detects the requests that servers deny on some connections. It is safe
// for concurrent use.
type Denials struct {
	conns []*nats.Conn

	mu      sync.Mutex
	waiting map[*denialWait]struct{}
}

// denialWait is work that a denial of its own rights ends.
type denialWait struct {
	own    Own
	cancel context.CancelCauseFunc
}

// WatchDenials watches connections. Errors that concern no work go to their
// previous error handlers.
func WatchDenials(conns ...*nats.Conn) *Denials {
	d := &Denials{conns: conns, waiting: make(map[*denialWait]struct{})}
	for _, conn := range conns {
		next := conn.ErrorHandler()
		conn.SetErrorHandler(func(c *nats.Conn, sub *nats.Subscription, err error) {
			if !d.end(err) && next != nil {
				next(c, sub, err)
			}
		})
	}
	return d
}

// end ends the work that needs a denied right, and reports whether there is any.
func (d *Denials) end(err error) (found bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.waiting {
		if isOwn(w.own, err) {
			delete(d.waiting, w)
			w.cancel(err)
			found = true
		}
	}
	return found
}

func isOwn(own Own, err error) bool {
	v, ok := rights.ViolationOf(err)
	return ok && own(v)
}

// When returns a context that ends when a server denies the user of one of the
// connections a right of its own. A denied request is never answered, and would
// look like a timeout. The function explains the error of the work under that
// context, which has ended then. It takes nil too, because a denied subscription
// is not an error for the subscriber.
func (d *Denials) When(ctx context.Context, own Own) (context.Context, func(error) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &denialWait{own, cancel}
	d.mu.Lock()
	d.waiting[w] = struct{}{}
	d.mu.Unlock()
	return ctx, func(err error) error {
		d.mu.Lock()
		delete(d.waiting, w)
		d.mu.Unlock()
		defer cancel(nil)
		signs := []error{context.Cause(ctx)}
		for _, conn := range d.conns {
			// The handler may not have run yet.
			signs = append(signs, conn.LastError())
		}
		signs = append(signs, err) // on a connection of the worker's own
		for _, sign := range signs {
			if isOwn(own, sign) {
				return Denied(sign, err)
			}
		}
		return err
	}
}
