package main

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap/zapcore"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/problem"
)

// offlineFlags select the data folder of an embedded server that refuses to
// serve from it.
type offlineFlags struct {
	Data    string `help:"Data folder of a stopped embedded server." placeholder:"FOLDER" type:"path"`
	Witness string `help:"Witness of --data (default: FOLDER.witness)." placeholder:"FILE" type:"path"`
}

// raiseFolder raises every tag of a data folder by n, and prints a line per tag.
func (i natsFlags) raiseFolder(ctx context.Context, out output, source backend.Backend, at offlineFlags, n int64) error {
	done := newChanges(out)
	folder, err := tags.RaiseFolder(ctx, embedded.Config{
		Folder: at.Data, Witness: at.Witness, Log: newLogger(zapcore.WarnLevel),
	}, i.Prefix, source, n, done.Add)
	if err := done.End(err); err != nil || out.JSON {
		return err
	}
	_, err = fmt.Fprintf(out, "%s can be served again; if it issued snowflake IDs, wait 41 s after the last one\n", folder)
	return err
}

// checkOffline rejects arguments that conflict with a data folder.
func (r *tagRaiseCmd) checkOffline() error {
	if r.Data == "" && r.Witness != "" {
		return problem.Usage(errors.New("--witness needs --data"))
	}
	if r.Data != "" && (!r.All || r.named()) {
		return problem.Usage(errors.New("--data needs --all, and excludes --server, --context and their environment variables, such as NATS_URL"))
	}
	return nil
}
