package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/internal/secretfile"
	"github.com/idworker/idworker/testing/natstest"
)

// TestStopIsSuccess: a command that serves may fail, but not because it was
// stopped. The log has errors of the stop.
func TestStopIsSuccess(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		stopped bool
		err     error
		fails   bool
		says    string
	}{
		{false, broken, true, ""},
		{false, nil, false, ""},
		{true, nil, false, ""},
		{true, fmt.Errorf("start: %w", context.Canceled), false, "stopped before it served"},
		{true, broken, false, "stopped with work unfinished"},
	} {
		core, logs := observer.New(zap.InfoLevel)
		ctx, stop := context.WithCancel(t.Context())
		if test.stopped {
			stop()
		}
		err := serveUntilStopped(ctx, &secretfile.Set{Log: zap.New(core)}, func(context.Context) error { return test.err })
		stop()
		if (err != nil) != test.fails || logs.FilterMessage(test.says).Len() != logs.Len() {
			t.Errorf("%+v: returns %v, logs %v", test, err, logs.All())
		}
	}
}

// TestHangUp: SIGHUP ends nothing. It rereads files, if there are any.
func TestHangUp(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	files := &secretfile.Set{Log: zap.New(core)}
	serving, stop, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- serveUntilStopped(t.Context(), files, func(context.Context) error {
			close(serving)
			<-stop
			return nil
		})
	}()
	<-serving
	hangUp := func(times int) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "the signal is logged", func() bool { return logs.FilterMessage("SIGHUP: rereading files").Len() == times })
	}
	hangUp(1)
	path := writeFile(t, "1")
	number, err := secretfile.Open(files, "number", func(contents [][]byte) (string, error) { return string(contents[0]), nil }, path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("2"), 0o600); err != nil {
		t.Fatal(err)
	}
	hangUp(2)
	natstest.Eventually(t, "the file is reread", func() bool { return number.Last() == "2" })
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestCutOff: during a stop, a connection is closed if its server is away, which
// is logged once.
func TestCutOff(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		ns := natstest.Start(t)
		conns := []*nats.Conn{ns.Connect(t, nats.MaxReconnects(-1)), ns.Connect(t, nats.MaxReconnects(-1))}
		if away {
			ns.Stop()
		}
		core, logs := observer.New(zap.InfoLevel)
		cutOff(t.Context(), zap.New(core), conns...)
		for _, conn := range conns {
			if conn.IsClosed() != away || (logs.Len() == 1) != away || logs.Len() > 1 {
				t.Errorf("server away: %v, connection closed: %v, logged: %v", away, conn.IsClosed(), logs.All())
			}
		}
	}
}
