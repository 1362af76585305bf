package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
)

// publishTimeout is how long the load stream may take to accept an event.
const publishTimeout = time.Second

// queuedRetry is the first pause before an event is tried again that was refused
// because one is queued; it doubles up to queuedRetryMax, and then the allocator's
// own asking-again takes over.
const (
	queuedRetry    = 20 * time.Millisecond
	queuedRetryMax = 320 * time.Millisecond
)

// asker turns the allocator's loads into load events.
type asker struct {
	js       jetstream.JetStream
	prefix   messages.Prefix
	instance string
	direct   func(loads.Event)                 // loads without the stream
	asking   func(tag string, seq uint64) bool // whether a load is still wanted
	log      *zap.Logger

	ctx  context.Context // ends the goroutines
	wg   sync.WaitGroup
	away atomic.Bool // the stream took the latest event not
}

// ask is the allocator's Config.Load. Each load has a goroutine of its own while it
// is being published: one tag cannot hold up another, and there is at most one load
// per tag.
func (a *asker) ask(l allocator.Load) {
	a.wg.Go(func() {
		event := loads.Event{Instance: a.instance, Tag: l.Tag, Step: l.Step, Want: l.Want, Seq: l.Seq}
		a.publish(event)
	})
}

// publish brings the event to the stream, or loads directly if that cannot be.
func (a *asker) publish(event loads.Event) {
	if a.away.Load() { // load first, and see below whether the stream is back
		a.direct(event)
	}
	err := a.send(event)
	for retry := queuedRetry; isQueued(err) && retry <= queuedRetryMax; retry *= 2 {
		// A loader has sent the grant of the load before, and its ack is still
		// on the way; or the event itself still waits for a loader.
		if pause(a.ctx, retry); !a.asking(event.Tag, event.Seq) {
			return
		}
		err = a.send(event)
	}
	switch {
	case err == nil:
		if a.away.Swap(false) {
			a.log.Info("load stream is back")
		}
	case a.ctx.Err() != nil:
	case isQueued(err):
		// Queued for so long although requests wait: its loader may be dead, and
		// the stream will not give it to another for some seconds.
		if event.Want > 0 {
			a.direct(event)
		}
	case !a.away.Swap(true):
		a.log.Warn("load stream is away, loading directly", zap.Error(err))
		a.direct(event)
	}
}

// send publishes the event once.
func (a *asker) send(event loads.Event) error {
	ctx, cancel := context.WithTimeout(a.ctx, publishTimeout)
	defer cancel()
	_, err := a.js.Publish(ctx, loads.Subject(a.prefix, a.instance, event.Tag), event.Encode(), jetstream.WithRetryAttempts(0))
	return err
}

// maxPerSubject is the server's error code for a second message on a subject of
// the load stream.
const maxPerSubject jetstream.ErrorCode = 10077

// isQueued reports whether the stream refused an event because it holds one of the
// same worker and tag.
func isQueued(err error) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && refused.ErrorCode == maxPerSubject
}
