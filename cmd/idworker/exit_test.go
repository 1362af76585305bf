package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/embedded"
	"github.com/idworker/idworker/internal/natsconn"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker"
)

func TestExitCodes(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	listen := &net.OpError{Op: "listen", Err: errors.New("address already in use")}
	for _, test := range []struct {
		err  error
		code int
	}{
		{nil, exitOK},
		{errors.New("anything"), exitFailure},
		{io.ErrUnexpectedEOF, exitFailure},
		{store.ErrTagExists, exitFailure},
		{listen, exitFailure},
		{embedded.ErrInUse, exitFailure},
		{embedded.ErrDamaged, exitFailure},
		{&natsconn.DeniedError{}, exitFailure},
		{&usageError{errors.New("bad flag")}, exitUsage},
		{&usageError{context.DeadlineExceeded}, exitUsage},
		{messages.ErrMalformed, exitUsage},
		{messages.ErrTag, exitUsage},
		{messages.ErrCount, exitUsage},
		{messages.ErrPrefix, exitUsage},
		{worker.ErrConfig, exitUsage},
		{agreement.ErrForeignStore, exitUsage},
		{enrich.ErrConfig, exitUsage},
		{store.ErrBadTag, exitUsage},
		{snowflake.ErrID, exitUsage},
		{messages.ErrNoTag, exitNoTag},
		{store.ErrNoTag, exitNoTag},
		{messages.ErrBusy, exitTryLater},
		{messages.ErrUnavailable, exitTryLater},
		{nats.ErrNoResponders, exitTryLater},
		{nats.ErrTimeout, exitTryLater},
		{nats.ErrNoServers, exitTryLater},
		{context.DeadlineExceeded, exitTryLater},
		{dial, exitTryLater},
		{messages.ErrExhausted, exitExhausted},
		{context.Canceled, exitInterrupt},
	} {
		for _, err := range []error{test.err, wrapped(test.err), errors.Join(test.err, nil)} {
			if code := exitCode(err); code != test.code {
				t.Errorf("%v: exit code %d, want %d", err, code, test.code)
			}
		}
	}
}

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("start: %w", err)
}
