package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap/zapcore"

	"github.com/idworker/idworker/internal/backend"
	"github.com/idworker/idworker/internal/embedded"
	"github.com/idworker/idworker/internal/witness"
	"github.com/idworker/idworker/store"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
)

// offlineFlags are for the data folder of an embedded server that refuses to serve from it.
type offlineFlags struct {
	Data    string `help:"Work on the data folder of an embedded server that does not run, as after a restore." placeholder:"FOLDER" type:"path"`
	Witness string `help:"Its witness, if that is not FOLDER.witness." placeholder:"FOLDER" type:"path"`
}

// raiseFolder raises every tag in a data folder by n above where it is, or above where the
// witness saw it, and then has the witness take the folder for what it is now.
func (i installation) raiseFolder(ctx context.Context, out output, source backend.Backend, at offlineFlags, n int64) error {
	server, err := embedded.Start(ctx, embedded.Config{
		Folder: at.Data, Witness: at.Witness, Counter: backend.Counter, Log: newLogger(zapcore.WarnLevel), Recover: true,
	})
	if err != nil {
		return err
	}
	defer server.Stop()
	conn, js, err := server.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	if source.Kind() == backend.JetStream { // the bucket may be among what is lost
		if err := jetstreamstore.Create(ctx, js, i.Prefix, 1); err != nil {
			return err
		}
	}
	segments, err := source.Open(ctx, js, i.Prefix)
	if err != nil {
		return err
	}
	defer func() { _ = segments.Close() }() // all answers are in
	lost, err := server.Lost(ctx)
	if err != nil {
		return err
	}
	var losses []witness.Loss
	if lost != nil {
		losses = lost.Losses
	}
	raised, err := witness.RaiseAll(ctx, segments, losses, n, defaultStep)
	slices.SortFunc(raised, func(a, b store.Tag) int { return cmp.Compare(a.Name, b.Name) })
	for _, tag := range raised {
		fmt.Fprintf(out, "tag %s: next ID %d\n", tag.Name, tag.Next)
	}
	if err != nil {
		return err
	}
	if err := server.Renew(ctx, witnessed(i.Prefix, source)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s may be served from again; of snowflake IDs, not before 41 s after the last one was handed out\n", server.Folder())
	return err
}

// checkOffline says which arguments do not go with a data folder.
func (r *tagRaiseCmd) checkOffline() error {
	if r.Data == "" && r.Witness != "" {
		return &usageError{errors.New("--witness goes with --data")}
	}
	if r.Data != "" && (!r.All || r.named()) {
		return &usageError{errors.New("--data goes with --all, and without --server")}
	}
	return nil
}
