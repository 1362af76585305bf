package tags

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/worker"
)

// ErrLoadersRun says that loaders consume load events: they would go on with
// the old store.
var ErrLoadersRun = errors.New("loaders are running, and would go on with the old store")

// SwitchStore imports a list of tags into another store than the installation
// counts in, and has it count there from then on. Workers may go on, and live
// on memory meanwhile; loaders must not run, and those that are started with
// the old store afterwards are refused. The list has to be an export that was
// made after the last loader had ended.
//
// A loader that is paused for longer than its pull request, some seconds, is
// not seen.
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

// checkNoLoader returns ErrLoadersRun if a loader waits for load events, or has
// some that it has not acknowledged.
func checkNoLoader(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) error {
	consumer, err := js.Consumer(ctx, loads.StreamName(prefix), worker.LoaderConsumer)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("see whether loaders run: %w", err)
	}
	if info := consumer.CachedInfo(); info.NumWaiting > 0 || info.NumAckPending > 0 {
		return fmt.Errorf("%w (%d wait for load events, %d events are with them)", ErrLoadersRun, info.NumWaiting, info.NumAckPending)
	}
	return nil
}
