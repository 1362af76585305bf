package kv

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
)

// firstTry is the timeout of the first try. A cluster without a leader never
// answers a request.
const firstTry = 5 * time.Second

// The pause after an answer without a leader: it doubles.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = 2 * time.Second
)

// WithRetry repeats a request to JetStream until it is answered by a leader, or
// ctx ends, also while the connection is lost. The timeout doubles with each try, so that a slow JetStream
// succeeds, too.
func WithRetry(ctx context.Context, log *zap.Logger, do func(context.Context) error) error {
	wait := firstPause
	for timeout := firstTry; ; {
		try, cancel := context.WithTimeout(ctx, timeout)
		err := do(try)
		cancel()
		silent := errors.Is(err, context.DeadlineExceeded)
		if ctx.Err() != nil || !silent && !isLeaderless(err) && !errors.Is(err, nats.ErrReconnectBufExceeded) { // the connection is lost
			return err
		}
		log.Warn("JetStream is not answering, retrying", zap.Error(err))
		if silent {
			timeout *= 2
			continue
		}
		if pause.For(ctx, wait); ctx.Err() != nil {
			return err
		}
		wait = min(2*wait, longestPause)
	}
}

// leaderless are a cluster's codes for a stream or consumer without a leader:
// none is elected yet, or the only server with a replica is down, as in a
// rolling restart. nats.go has no names for them.
var leaderless = []jetstream.ErrorCode{
	10008, // JetStream system temporarily unavailable
	10009, // JetStream cluster can not handle request
	10118, // stream is offline
	10119, // consumer is offline
}

// ErrNoLeader means that the answering replica of a stream has no leader. A
// server answers so for some time after it was paused, and lacks recent writes.
var ErrNoLeader = errors.New("no leader")

func isLeaderless(err error) bool {
	var answer *jetstream.APIError
	return errors.Is(err, ErrNoLeader) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.As(err, &answer) && slices.Contains(leaderless, answer.ErrorCode)
}
