package main

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/status"
	"github.com/idworker/idworker/worker"
)

// statusSource is what the status page of a process that serves is made from. The page is there before the process
// is: until then it says that it is starting.
type statusSource struct {
	serve   *serveCmd
	running *atomic.Pointer[worker.Process]
	doctor  atomic.Pointer[doctorCmd] // once the process serves, and it is known where
}

// errStarting says why the page knows nothing yet.
var errStarting = errors.New("starting")

func newStatusSource(s *serveCmd, running *atomic.Pointer[worker.Process]) *statusSource {
	return &statusSource{serve: s, running: running}
}

// started is called when the process serves.
func (s *statusSource) started() {
	s.doctor.Store(&doctorCmd{
		installation: s.serve.installation, storeFlags: s.serve.storeFlags, Role: role(s.serve.Role),
		resourceFlags: resourceFlags{LeaseTTL: s.serve.LeaseTTL}, Layout: s.serve.Layout, MaxClockSkew: s.serve.MaxClockSkew,
	})
}

func (s *statusSource) shared() *status.Shared {
	return status.NewShared(status.NewCollector(status.Config{
		Prefix: s.serve.Prefix, Domain: s.serve.JSDomain != "" || s.serve.Context != "",
		Dial: s.dial, Self: s.self, Examine: s.examine,
	}))
}

func (s *statusSource) dial() (*nats.Conn, jetstream.JetStream, error) {
	d := s.doctor.Load()
	if d == nil {
		return nil, nil, errStarting
	}
	return d.dial(status.Options()...)
}

func (s *statusSource) self(tags int) (worker.Report, bool) {
	w := s.running.Load()
	if w == nil {
		return worker.Report{}, false
	}
	return w.Report(tags), true
}

func (s *statusSource) examine(ctx context.Context) []status.Check {
	d := s.doctor.Load()
	if d == nil {
		return nil
	}
	return d.checks(ctx)
}
