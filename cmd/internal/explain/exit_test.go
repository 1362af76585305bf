package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/agreement"
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
		{nil, ExitOK},
		{errors.New("anything"), ExitFailure},
		{io.ErrUnexpectedEOF, ExitFailure},
		{store.ErrTagExists, ExitFailure},
		{listen, ExitFailure},
		{embedded.ErrInUse, ExitFailure},
		{embedded.ErrDamaged, ExitFailure},
		{&natsconn.DeniedError{}, ExitFailure},
		{&usageError{errors.New("bad flag")}, ExitUsage},
		{&usageError{context.DeadlineExceeded}, ExitUsage},
		{messages.ErrMalformed, ExitUsage},
		{messages.ErrTag, ExitUsage},
		{messages.ErrCount, ExitUsage},
		{messages.ErrPrefix, ExitUsage},
		{worker.ErrConfig, ExitUsage},
		{agreement.ErrForeignStore, ExitUsage},
		{enrich.ErrConfig, ExitUsage},
		{store.ErrBadTag, ExitUsage},
		{snowflake.ErrID, ExitUsage},
		{snowflake.ErrTime, ExitUsage},
		{messages.ErrNoTag, ExitNoTag},
		{store.ErrNoTag, ExitNoTag},
		{messages.ErrBusy, ExitTryLater},
		{messages.ErrUnavailable, ExitTryLater},
		{nats.ErrNoResponders, ExitTryLater},
		{nats.ErrTimeout, ExitTryLater},
		{nats.ErrNoServers, ExitTryLater},
		{context.DeadlineExceeded, ExitTryLater},
		{dial, ExitTryLater},
		{messages.ErrExhausted, ExitExhausted},
		{context.Canceled, ExitInterrupt},
	} {
		for _, err := range []error{test.err, wrapped(test.err), errors.Join(test.err, nil)} {
			if code := ExitCode(err); code != test.code {
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
