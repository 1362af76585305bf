package natsconn

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// What JetStream does not answer is asked again, with more patience each time, and what
// fails otherwise is not.
func TestPatiently(t *testing.T) {
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
		err := Patiently(ctx, zap.NewNop(), func(ctx context.Context) error {
			if len(tries) == 2 {
				return nil // a leader was elected
			}
			return hang(ctx)
		})
		if err != nil || len(tries) != 2 || tries[0] != firstTry || tries[1] != 2*firstTry {
			t.Errorf("%v after tries of %v", err, tries)
		}
		if err := Patiently(ctx, zap.NewNop(), hang); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v when the time is over", err)
		}
		broken := errors.New("broken")
		calls := 0
		err = Patiently(t.Context(), zap.NewNop(), func(context.Context) error { calls++; return broken })
		if !errors.Is(err, broken) || calls != 1 {
			t.Errorf("%v after %d calls, want broken after one", err, calls)
		}
	})
}

// A server that knows of no leader says so at once, instead of not answering.
func TestPatientlyWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		calls := 0
		err := Patiently(t.Context(), zap.NewNop(), func(context.Context) error {
			switch calls++; {
			case calls <= 10:
				return fmt.Errorf("bucket: %w", &jetstream.APIError{Code: 503, ErrorCode: errCodeNoLeader})
			case calls <= 20:
				return fmt.Errorf("watch: %w", &nats.APIError{Code: 503, ErrorCode: errCodeNoLeader})
			}
			return nil
		})
		if took := time.Since(began); err != nil || calls != 21 || took != 20*time.Second {
			t.Errorf("%v after %d calls and %v", err, calls, took)
		}
		notEnabled := &jetstream.APIError{Code: 503, ErrorCode: 10076}
		if err := Patiently(t.Context(), zap.NewNop(), func(context.Context) error { return notEnabled }); !errors.Is(err, notEnabled) {
			t.Errorf("%v, want that JetStream is not enabled", err)
		}
	})
}
