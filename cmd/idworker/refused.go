package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"
)

// errRefused is that the NATS user lacks a right.
var errRefused = errors.New("the NATS server refuses this user a right")

// creates matches the subjects of requests that create what provision makes. Other
// consumers come and go with the watches of buckets.
var creates = regexp.MustCompile(`\.STREAM\.CREATE\.|\.CONSUMER\.(DURABLE\.)?CREATE\.[^.]*_LOAD\.`)

// refused says which right is lacking, in the server's words, and the cure.
func refused(violation error) error {
	_, what, _ := strings.Cut(violation.Error(), nats.ErrPermissionViolation.Error()+": ")
	cure := "nats.conf shows which rights each role needs"
	if creates.MatchString(what) {
		cure += "; to create what is missing is up to an administrator: idworker provision"
	}
	return fmt.Errorf("%w: %s; %s", errRefused, what, cure)
}

// whenRefused returns a context that ends as soon as the server refuses the user of one
// of the connections something: such a request is never answered, and would look like a
// timeout. The function explains the error of what was done meanwhile, nil included: that
// a subscription was refused is no error to whoever made it.
func whenRefused(ctx context.Context, conns ...*nats.Conn) (context.Context, func(error) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	for _, conn := range conns {
		next := conn.ErrorHandler()
		conn.SetErrorHandler(func(c *nats.Conn, sub *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) && ctx.Err() == nil {
				cancel(refused(err))
			} else if next != nil {
				next(c, sub, err)
			}
		})
	}
	return ctx, func(err error) error {
		defer cancel(nil)
		if cause := context.Cause(ctx); errors.Is(cause, errRefused) {
			return cause
		}
		for _, conn := range conns {
			// The handler may not have been called yet, but the server has told.
			if last := conn.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
				return refused(last)
			}
		}
		return err
	}
}
