package natsconn

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
)

// firstTry is how long JetStream may take to answer before it is asked again: a request that
// arrives while a cluster has no leader is never answered.
const firstTry = 5 * time.Second

// Patiently calls a function that asks JetStream something, and calls it again while there
// is no answer. Each try may take twice as long as the one before, because a JetStream that
// is only slow has to succeed too.
func Patiently(ctx context.Context, log *zap.Logger, do func(context.Context) error) error {
	for timeout := firstTry; ; timeout *= 2 {
		try, cancel := context.WithTimeout(ctx, timeout)
		err := do(try)
		cancel()
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		log.Warn("JetStream does not answer yet, trying again; does it have a leader?", zap.Error(err))
	}
}
