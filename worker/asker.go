package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
)

// publishTimeout is how long the load stream may take to accept an event.
const publishTimeout = time.Second

// queuedRetry is the first pause before retrying an event that the stream refused because
// one is queued. The pause doubles up to queuedRetryMax; then the allocator asks for the
// load again anyway.
const (
	queuedRetry    = 20 * time.Millisecond
	queuedRetryMax = 320 * time.Millisecond
)

// asker turns the allocator's loads into load events.
type asker struct {
	js           jetstream.JetStream
	prefix       messages.Prefix
	instance     string
	installation string
	direct       func(loads.Event)                 // loads without the stream
	asked        func(loads.Event)                 // is told of each
	isLoading    func(tag string, seq uint64) bool // whether a load is still wanted
	log          *zap.Logger
	publishing   *goroutines

	away atomic.Bool // the stream did not accept the latest event
}

// ask is the allocator's Config.Load. Each load has a goroutine of its own while it is being
// published, so that one tag cannot hold up another. There is at most one load per tag.
// Once the process has stopped answering, nobody wants the load any more.
func (a *asker) ask(l allocator.Load) {
	event := loads.Event{
		Instance: a.instance, Tag: l.Tag, Step: l.Step, Want: l.Want, Seq: l.Seq, Above: l.Above, Installation: a.installation,
	}
	a.asked(event)
	a.publishing.start(func(ctx context.Context) { a.publish(ctx, event) })
}

// publish puts the event into the stream, or loads directly if that fails.
func (a *asker) publish(ctx context.Context, event loads.Event) {
	if a.away.Load() { // load first, then find out whether the stream is back
		a.direct(event)
	}
	err := a.publishOnce(ctx, event)
	for retry := queuedRetry; isQueued(err) && retry <= queuedRetryMax; retry *= 2 {
		// Either a loader has sent the grant for the previous load and its ack is
		// still on the way, or this event itself still waits for a loader.
		if pause.For(ctx, retry); !a.isLoading(event.Tag, event.Seq) {
			return
		}
		err = a.publishOnce(ctx, event)
	}
	switch {
	case err == nil:
		if a.away.Swap(false) {
			a.log.Info("load stream is back")
		}
	case ctx.Err() != nil:
	case isQueued(err):
		// Queued for so long although requests wait: its loader may be dead, and the
		// stream will not deliver it to another loader for some seconds.
		if event.Want > 0 {
			a.direct(event)
		}
	case !a.away.Swap(true):
		a.log.Warn("load stream is away, loading directly", zap.Error(err))
		a.direct(event)
	}
}

func (a *asker) publishOnce(ctx context.Context, event loads.Event) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	_, err := a.js.Publish(ctx, loads.Subject(a.prefix, a.instance, event.Tag), event.Encode(), jetstream.WithRetryAttempts(0))
	return err
}

// maxPerSubject is the server's error code for a second message on a subject of
// the load stream.
const maxPerSubject jetstream.ErrorCode = 10077

// isQueued reports whether the stream refused an event because it holds one of the same
// worker and tag.
func isQueued(err error) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && refused.ErrorCode == maxPerSubject
}
