package kv

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// Unanswered requests are retried, with a growing timeout; other failures are
// not.
func TestWithRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Duration
		hang := func(ctx context.Context) error {
			began := time.Now()
			<-ctx.Done()
			tries = append(tries, time.Since(began))
			return ctx.Err()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		err := WithRetry(ctx, zap.NewNop(), func(ctx context.Context) error {
			if len(tries) == 2 {
				return nil // a leader was elected
			}
			return hang(ctx)
		})
		if err != nil || len(tries) != 2 || tries[0] != firstTry || tries[1] != 2*firstTry {
			t.Errorf("%v after tries of %v", err, tries)
		}
		if err := WithRetry(ctx, zap.NewNop(), hang); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v when the time is over", err)
		}
		began, answers := time.Now(), []error{
			fmt.Errorf("bucket: %w", &jetstream.APIError{Code: 500, ErrorCode: 10118}), &jetstream.APIError{Code: 503, ErrorCode: 10008},
			fmt.Errorf("write: %w", jetstream.ErrNoStreamResponse), fmt.Errorf("feed: %w", &jetstream.APIError{Code: 503, ErrorCode: 10009}),
			fmt.Errorf("stream: %w", ErrNoLeader), nil,
		}
		next := func(context.Context) error {
			err := answers[0]
			answers = answers[1:]
			return err
		}
		if err := WithRetry(t.Context(), zap.NewNop(), next); err != nil || len(answers) > 0 || time.Since(began) != 23*firstPause {
			t.Errorf("%v after %v without a leader, want pauses that double", err, time.Since(began))
		}
		ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		offline := &jetstream.APIError{Code: 500, ErrorCode: 10118}
		if err := WithRetry(ctx, zap.NewNop(), func(context.Context) error { return offline }); !errors.Is(err, offline) || ctx.Err() == nil {
			t.Errorf("%v from a stream that is never there, want what the server says of it, when the time is over", err)
		}
		broken := errors.New("broken")
		calls := 0
		err = WithRetry(t.Context(), zap.NewNop(), func(context.Context) error { calls++; return broken })
		if !errors.Is(err, broken) || calls != 1 {
			t.Errorf("%v after %d calls, want broken after one", err, calls)
		}
	})
}
