package main

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/doctor"
	"github.com/idworker/idworker/internal/leader"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// openStore opens the segment store of a process that loads: the register, created if it
// is missing and may be created, and compared with the witness; and the table. Nothing may
// be in flight any more when it is closed.
func (s *serveCmd) openStore(ctx context.Context, cfg worker.Config, source backend.Backend, w *register.Witness) (*backend.Store, error) {
	err := leader.Patiently(ctx, cfg.Log, func(ctx context.Context) error {
		if err := worker.Provision(ctx, cfg.JetStream, cfg.Prefix, cfg.Replicas); err != nil {
			return err
		}
		return register.Create(ctx, cfg.JetStream, cfg.Prefix, cfg.Replicas)
	})
	if err != nil {
		return nil, err
	}
	var segments *backend.Store
	err = leader.Patiently(ctx, cfg.Log, func(ctx context.Context) (err error) {
		segments, err = source.Open(ctx, backend.Options{JetStream: cfg.JetStream, Prefix: cfg.Prefix, Witness: w, Log: cfg.Log})
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := segments.Prepare(ctx, s.Migrate, cfg.Log); err != nil {
		return nil, errors.Join(err, segments.Close())
	}
	if segments.Database != nil {
		doctor.WarnOfSettings(segments.Database.Durability(ctx), cfg.Log)
	}
	return segments, nil
}

// openWitness opens the witness of a loader that uses a server of yours, if it has one.
func (s *serveCmd) openWitness(log *zap.Logger) (*register.Witness, error) {
	if s.Witness == "" || s.Role == worker.RoleWorker {
		return nil, nil
	}
	w, err := register.OpenWitness(s.Witness)
	if err == nil && w.Fresh() {
		log.Warn("new witness, without evidence", zap.String("witness", s.Witness))
	}
	return w, err
}

// keepWitness has the witness of an embedded server kept where no loader is in the process.
func (s *serveCmd) keepWitness(ctx context.Context, cfg worker.Config, w *register.Witness, opened *closers) error {
	if err := register.Create(ctx, cfg.JetStream, cfg.Prefix, cfg.Replicas); err != nil {
		return err
	}
	watched, err := register.Open(ctx, register.Config{
		JetStream: cfg.JetStream, Prefix: cfg.Prefix, Witness: w, Beside: backend.Beside(cfg.Prefix), Log: cfg.Log,
	})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		watched.Run(running)
	}()
	opened.add(func() {
		cancel()
		<-done
		_ = watched.Close() // the next start compares with what was noted a second ago
	})
	return nil
}
