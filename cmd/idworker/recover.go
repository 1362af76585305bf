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

// offlineFlags are for the data folder of an embedded server that refuses to serve from it.
type offlineFlags struct {
	Data    string `help:"Work on the data folder of an embedded server that does not run, as after a restore." placeholder:"FOLDER" type:"path"`
	Witness string `help:"Its witness (default: FOLDER.witness)." placeholder:"FILE" type:"path"`
}

// raiseFolder raises every tag in a data folder by n, and prints a line per tag.
func (i installation) raiseFolder(ctx context.Context, out output, source backend.Backend, at offlineFlags, n int64) error {
	done := newChanges(out)
	folder, err := tags.RaiseFolder(ctx, embedded.Config{
		Folder: at.Data, Witness: at.Witness, Log: newLogger(zapcore.WarnLevel),
	}, i.Prefix, source, n, done.add)
	if err := done.End(err); err != nil || out.JSON {
		return err
	}
	_, err = fmt.Fprintf(out, "%s may be served from again; if it handed out snowflake IDs, not before 41 s after the last of them\n", folder)
	return err
}

// checkOffline says which arguments do not go with a data folder.
func (r *tagRaiseCmd) checkOffline() error {
	if r.Data == "" && r.Witness != "" {
		return problem.Usage(errors.New("--witness goes with --data"))
	}
	if r.Data != "" && (!r.All || r.named()) {
		return problem.Usage(errors.New("--data goes with --all, and without --server, --context and their environment variables, such as NATS_URL"))
	}
	return nil
}
