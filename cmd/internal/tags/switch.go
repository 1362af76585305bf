package tags

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/worker"
)

// ErrLoadersRun is the error if a loader is connected: it would continue with
// the old store.
var ErrLoadersRun = problem.New(problem.LoadersRun, "loaders are running, and would go on with the old store")

// SwitchStore imports a list of tags into another store than the installation
// counts in, and has it count there from then on. Workers may continue, and live
// on memory meanwhile; loaders must not run, and those that are started with the
// old store afterwards are refused. The list must be an export that was made
// after the last loader had ended.
func SwitchStore(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, to backend.Backend, list Transfer, report func(Raised)) error {
	agreed, err := agreement.Open(ctx, js, prefix)
	if err != nil {
		return err
	}
	if err := checkNoLoader(ctx, js, prefix); err != nil {
		return err
	}
	t, err := open(ctx, js, prefix, to)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := t.Import(ctx, list, report); err != nil {
		return err
	}
	return agreed.SwitchStore(ctx, to.Name())
}

// checkNoLoader returns ErrLoadersRun unless the server returns that no loader
// is connected, and the stream of load events has none, either. A paused loader
// is connected.
//
// A loader that has lost its connection may hold an event. It writes nothing for
// an event that it has held for AckWait, so checkNoLoader waits until the last
// delivery is older. The number of unacknowledged events is no evidence: an
// event of a dead loader remains until it expires.
func checkNoLoader(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) error {
	listens, err := worker.LoaderListens(ctx, js.Conn(), prefix)
	if err != nil {
		return fmt.Errorf("look for loaders: %w", err)
	}
	if listens {
		return ErrLoadersRun
	}
	consumer, err := js.Consumer(ctx, loads.StreamName(prefix), worker.LoaderConsumer)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for loaders: %w", err)
	}
	for quiet := 0; quiet < betweenPulls; quiet++ {
		info, err := consumer.Info(ctx)
		if err != nil {
			return fmt.Errorf("look for loaders: %w", err)
		}
		if info.NumWaiting > 0 {
			return ErrLoadersRun
		}
		if last := info.Delivered.Last; info.NumAckPending > 0 && last != nil && info.TimeStamp.Sub(*last) < info.Config.AckWait {
			quiet = 0
		}
		pause.For(ctx, lookAgain)
	}
	return nil
}

// A loader that runs is between two pulls for less than betweenPulls looks. The
// server may have no way to a loader in another JetStream domain but the stream.
const (
	betweenPulls = 5
	lookAgain    = 200 * time.Millisecond
)
