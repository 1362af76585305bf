package natsconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestAwait waits for an unreachable server without limit, with two log lines.
// A server's error counts as an answer.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.InfoLevel)
		back := time.Now().Add(24 * time.Hour)
		err := Await(t.Context(), zap.New(core), func() error {
			if time.Now().Before(back) {
				return fmt.Errorf("connect: %w", nats.ErrNoServers)
			}
			return nil
		})
		if late := time.Since(back); err != nil || late > longestPause || logged.Len() != 2 {
			t.Errorf("%v, %v after the server was back, %d lines; want nil, at once, and 2", err, late, logged.Len())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := Await(ctx, zap.NewNop(), func() error { return nats.ErrNoServers }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v when the time is over", err)
		}
		calls := 0
		err = Await(t.Context(), zap.New(core), func() error { calls++; return nats.ErrAuthorization })
		dialing := make(chan error)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := Await(ctx, zap.New(core), func() error { return <-dialing }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v during a dial that does not end", err)
		}
		dialing <- nil
		if !errors.Is(err, nats.ErrAuthorization) || calls != 1 || logged.Len() != 2 {
			t.Errorf("%v after %d attempts, want that the login is refused after one", err, calls)
		}
	})
}

// TestIsAway: errors that are worth a wait, and others.
func TestIsAway(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, away := range []error{
		nats.ErrNoServers, nats.ErrTimeout, dial, io.EOF,
		&net.OpError{Op: "read", Err: errors.New("connection reset by peer")},
		&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}},
	} {
		if !IsAway(fmt.Errorf("connect: %w", away)) {
			t.Errorf("%v is not waited for", away)
		}
	}
	for _, answer := range []error{
		nil, nats.ErrAuthorization, nats.ErrSecureConnRequired, nats.ErrSecureConnWanted, ErrURL,
		x509.UnknownAuthorityError{}, &net.OpError{Op: "remote error", Err: tls.AlertError(42)},
		errors.New("anything else"),
	} {
		if IsAway(answer) {
			t.Errorf("%v is waited for", answer)
		}
	}
}
