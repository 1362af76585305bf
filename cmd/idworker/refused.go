package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/resource"
)

// errRefused is that the NATS user lacks a right.
var errRefused = errors.New("the NATS server refuses this user a right")

// refused says which right is lacking, in the server's words, and the cure. Failed is what
// came of it; nil if nothing did that anybody noticed.
func refused(violation, failed error) error {
	_, what, _ := strings.Cut(violation.Error(), nats.ErrPermissionViolation.Error()+": ")
	var missing *resource.MissingError
	if errors.As(failed, &missing) {
		return fmt.Errorf("%s is missing: %w to create it: %s; have an administrator run: idworker provision", missing.Resource, errRefused, what)
	}
	if strings.Contains(what, `Subscription to "_INBOX`) {
		return fmt.Errorf("%w: %s; set --inbox-prefix to the one of this user", errRefused, what)
	}
	return fmt.Errorf("%w: %s; nats.conf shows which rights each role needs", errRefused, what)
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
				cancel(err)
			} else if next != nil {
				next(c, sub, err)
			}
		})
	}
	return ctx, func(err error) error {
		defer cancel(nil)
		if cause := context.Cause(ctx); errors.Is(cause, nats.ErrPermissionViolation) {
			return refused(cause, err)
		}
		for _, conn := range conns {
			// The handler may not have been called yet, but the server has told.
			if last := conn.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
				return refused(last, err)
			}
		}
		return err
	}
}
