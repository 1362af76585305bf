package natsconn

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
)

// firstTry is how long JetStream may take to answer before it is asked again: a request that
// arrives while a cluster has no leader is never answered.
const firstTry = 5 * time.Second

// errCodeNoLeader is JetStream's code for an error that servers answer while they know of no leader of the cluster.
const errCodeNoLeader = 10008

// Patiently calls a function that asks JetStream something, and calls it again while there
// is no answer, or no leader. Each try may take twice as long as the one before, because a
// JetStream that is only slow has to succeed too.
func Patiently(ctx context.Context, log *zap.Logger, do func(context.Context) error) error {
	for timeout := firstTry; ; {
		try, cancel := context.WithTimeout(ctx, timeout)
		err := do(try)
		cancel()
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, context.DeadlineExceeded):
			timeout *= 2
		case hasNoLeader(err):
			pause.For(ctx, time.Second)
		default:
			return err
		}
		log.Warn("JetStream does not answer yet, trying again; does it have a leader?", zap.Error(err))
	}
}

func hasNoLeader(err error) bool {
	var api *jetstream.APIError
	var watch *nats.APIError // those who watch a bucket get this one
	return errors.As(err, &api) && api.ErrorCode == errCodeNoLeader ||
		errors.As(err, &watch) && watch.ErrorCode == errCodeNoLeader
}
