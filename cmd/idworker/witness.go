package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/cmd/internal/witness"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker"
)

// openWitnessedStore opens the segment store of a loader. With a witness of its own, which is
// for those who use a NATS server of their operator's, it first compares what was counted with
// what the witness saw: before anything is created, for a bucket that is missing must not be
// replaced by an empty one. What it adds to opened is to be closed after the worker has
// stopped.
func (s *serveCmd) openWitnessedStore(ctx context.Context, cfg worker.Config, source backend.Backend, opened *closers) (store.Store, error) {
	if s.Witness == "" {
		return s.openStore(ctx, cfg, source, opened)
	}
	w, err := witness.Open(s.Witness, backend.Counter, cfg.Log)
	if err != nil {
		return nil, err
	}
	opened.add(w.Stop)
	if w.Fresh() {
		cfg.Log.Warn("the witness is new: it does not know how far IDs were handed out before", zap.String("witness", s.Witness))
	}
	err = natsconn.Patiently(ctx, cfg.Log, func(ctx context.Context) error { return w.Compare(ctx, cfg.JetStream) })
	if err != nil {
		return nil, err
	}
	segments, err := s.openStore(ctx, cfg, source, opened)
	if err != nil {
		return nil, err
	}
	return segments, w.Start(ctx, cfg.JetStream, source.Buckets(cfg.Prefix))
}
