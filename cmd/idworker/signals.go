package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/secretfile"
)

// serveUntilStopped runs a command that serves. At SIGHUP it rereads the files,
// which show in the log if they changed or cannot be used. SIGTERM and Ctrl-C
// end ctx, and with it the command, at any time: that is success, whatever
// could not be finished.
func serveUntilStopped(ctx context.Context, files *secretfile.Set, serve func(context.Context) error) error {
	log := files.Log
	defer func() { _ = log.Sync() }() // some systems cannot sync stderr
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	defer signal.Stop(hangUps)
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx) }()
	for {
		select {
		case <-hangUps:
			log.Info("SIGHUP: rereading files")
			files.Reread()
		case err := <-ended:
			switch {
			case ctx.Err() == nil:
				return err
			case errors.Is(err, context.Canceled):
				log.Info("stopped before it served")
			case err != nil:
				log.Warn("stopped with work unfinished", zap.Error(err))
			}
			return nil
		}
	}
}
