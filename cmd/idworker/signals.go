package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
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
			go files.Reread() // a file may hang
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

// answerWithin is the time in which the NATS server has to answer during a stop.
const answerWithin = 2 * time.Second

// cutOff closes the connections whose server does not answer, so that the rest
// of a stop does not wait for it. Other processes take that for a crash. ctx
// ends when the stop is over.
func cutOff(ctx context.Context, log *zap.Logger, conns ...*nats.Conn) {
	answers, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var silent []*nats.Conn
	for _, conn := range conns {
		if conn.FlushWithContext(answers) != nil {
			silent = append(silent, conn)
		}
	}
	if len(silent) == 0 || ctx.Err() != nil {
		return
	}
	log.Warn("NATS does not answer, stopping anyway", zap.String("risk", "the last messages may be lost; a worker ID is free once its lease expires"))
	var closing sync.WaitGroup
	for _, conn := range silent {
		closing.Go(conn.Close) // which waits for a dial
	}
	closing.Wait()
}
