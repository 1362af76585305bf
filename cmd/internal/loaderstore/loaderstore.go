// Package loaderstore opens the segment store of a process that loads, with what has to be looked
// at before it is used: the witness, the ledger, the table, and the settings of the database.
package loaderstore

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/doctor"
	"github.com/idworker/idworker/cmd/internal/witness"
	"github.com/idworker/idworker/internal/leader"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// Config says which store is opened, and how.
type Config struct {
	Source    backend.Backend
	JetStream jetstream.JetStream
	Prefix    messages.Prefix
	Replicas  int            // of buckets that are missing
	Ledger    backend.Ledger // for a database
	Migrate   bool           // creates the table if it is missing
	Witness   string         // folder of the loader's own witness, or empty
	Log       *zap.Logger
}

// Open opens the store, created if it is missing and may be created. Nothing may be under way any
// more when it is closed.
//
// With a witness of its own, which is for those who use a NATS server of their operator's, it first
// compares what was counted with what the witness saw: before anything is created, for a bucket
// that is missing must not be replaced by an empty one.
func Open(ctx context.Context, c Config) (_ store.Store, closeAll func(), err error) {
	if c.Witness == "" {
		return c.open(ctx)
	}
	w, err := witness.Open(c.Witness, backend.Counter, c.Log)
	if err != nil {
		return nil, nil, err
	}
	if w.Fresh() {
		c.Log.Warn("the witness is new: it does not know how far IDs were handed out before", zap.String("witness", c.Witness))
	}
	err = leader.Patiently(ctx, c.Log, func(ctx context.Context) error { return w.Compare(ctx, c.JetStream) })
	if err != nil {
		w.Stop()
		return nil, nil, err
	}
	segments, closeStore, err := c.open(ctx)
	if err != nil {
		w.Stop()
		return nil, nil, err
	}
	closeAll = func() {
		closeStore()
		w.Stop()
	}
	if err := w.Start(ctx, c.JetStream, c.Source.Buckets(c.Prefix)); err != nil {
		closeAll()
		return nil, nil, err
	}
	return segments, closeAll, nil
}

func (c Config) open(ctx context.Context) (_ store.Store, closeStore func(), err error) {
	err = leader.Patiently(ctx, c.Log, func(ctx context.Context) error {
		return c.Source.Create(ctx, c.JetStream, c.Prefix, c.Replicas)
	})
	if err != nil {
		return nil, nil, err
	}
	var segments *backend.Store
	err = leader.Patiently(ctx, c.Log, func(ctx context.Context) (err error) {
		segments, err = c.Source.OpenWith(ctx, c.JetStream, c.Prefix, c.Ledger)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	err = leader.Patiently(ctx, c.Log, segments.CheckLedger)
	if err == nil {
		err = segments.Prepare(ctx, c.Migrate, c.Log)
	}
	if err != nil {
		return nil, nil, errors.Join(err, segments.Close())
	}
	doctor.WarnOfSettings(segments.CheckDurability(ctx), c.Log)
	return segments.Remembering, func() { _ = segments.Close() }, nil // all answers are in
}
