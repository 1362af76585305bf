package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/backend"
	"github.com/idworker/idworker/internal/witness"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/ledger"
	"github.com/idworker/idworker/worker"
)

// witnessed are the buckets in an embedded server that its witness watches: all in which
// something is counted or agreed on.
func witnessed(prefix messages.Prefix, source backend.Backend) []string {
	buckets := []string{agreement.BucketName(prefix), lease.ClockBucketName(prefix)}
	return append(buckets, registers(prefix, source)...)
}

// registers are the buckets that say how far tags were granted: the counters themselves or,
// with a database, the ledger.
func registers(prefix messages.Prefix, source backend.Backend) []string {
	if source.Kind() == backend.JetStream {
		return source.Buckets(prefix)
	}
	return []string{ledger.BucketName(prefix)}
}

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
	err = patiently(ctx, cfg.Log, func(ctx context.Context) error { return w.Compare(ctx, cfg.JetStream) })
	if err != nil {
		return nil, err
	}
	segments, err := s.openStore(ctx, cfg, source, opened)
	if err != nil {
		return nil, err
	}
	return segments, w.Start(ctx, cfg.JetStream, registers(cfg.Prefix, source))
}
