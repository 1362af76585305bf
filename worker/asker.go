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

// asker turns the allocator's loads into load events, as many at a time as its window lets
// through. Those of unknown and strict tags go straight to a loader. Each of the others has
// a goroutine of its own while it is being published, so that one tag cannot hold up another.
type asker struct {
	js           jetstream.JetStream
	prefix       messages.Prefix
	instance     string
	installation string
	own          func(loads.Event) bool                              // loads in this process, if it can
	plain        func(subject string, data []byte) error             // publishes a plain message
	asked        func(loads.Event)                                   // is told of each
	current      func(tag string, seq uint64) (allocator.Load, bool) // the load, if it is still wanted
	log          *zap.Logger
	publishing   *goroutines
	window       *window

	away   atomic.Bool  // the stream did not accept the latest event
	tested atomic.Int64 // when it was last tried then, in Unix nanoseconds
}

// wish is the allocator's Config.Load. There is at most one load per tag.
func (a *asker) wish(l allocator.Load) {
	a.window.add(l.Tag, l.Seq, time.Now().Add(a.event(l).Slack()), l.First)
	if l.Step == 0 && l.Try > 1 && a.window.isOpen(l.Tag, l.Seq) {
		a.ask(l.Tag, l.Seq) // its loader may be frozen, so another one is asked
	}
}

// ask asks for a load, and reports whether it is still wanted. Once the process has stopped
// answering, nobody wants it any more.
func (a *asker) ask(tag string, seq uint64) bool {
	l, wanted := a.current(tag, seq)
	if !wanted {
		return false
	}
	event := a.event(l)
	a.asked(event)
	switch {
	case l.Want > 0 && a.own(event):
		return true
	case l.Step == 0: // unknown or strict, and so requests wait
		a.direct(event)
		return true
	}
	return a.publishing.start(func(ctx context.Context) { a.publish(ctx, event, l.Try) })
}

// event is the event that asks for a load.
func (a *asker) event(l allocator.Load) loads.Event {
	return loads.Event{
		Instance: a.instance, Tag: l.Tag, Step: l.Step, Unknown: l.First, Want: l.Want, Seq: l.Seq,
		Runway: max(1, l.Runway.Milliseconds()), Installation: a.installation,
	}
}

// direct asks any loader without the stream. If none receives the event, the allocator asks
// again.
func (a *asker) direct(event loads.Event) {
	_ = a.plain(loads.ReserveSubject(a.prefix), event.Encode())
}

// publish puts the event into the stream, or loads directly if that fails.
func (a *asker) publish(ctx context.Context, event loads.Event, try int) {
	away := a.away.Load()
	if away { // load first, then find out now and then whether the stream is back
		a.direct(event)
		if !a.mayTest() {
			return
		}
	}
	err := a.publishOnce(ctx, event)
	for retry := queuedRetry; isQueued(err) && retry <= queuedRetryMax && !a.window.silent(); retry *= 2 {
		// Either a loader has sent the grant for the previous load and its ack is
		// still on the way, or this event itself still waits for a loader.
		if pause.For(ctx, retry); !a.isWanted(event) {
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
		if event.Want > 0 && try > 1 {
			a.direct(event)
		}
	case !away:
		if !a.away.Swap(true) {
			a.log.Warn("load stream is away, loading directly", zap.Error(err))
		}
		a.direct(event)
	}
}

func (a *asker) isWanted(event loads.Event) bool {
	_, wanted := a.current(event.Tag, event.Seq)
	return wanted
}

// mayTest reports whether it is time to try a stream that is away. One at a time does.
func (a *asker) mayTest() bool {
	now, last := time.Now().UnixNano(), a.tested.Load()
	return now-last >= int64(publishTimeout) && a.tested.CompareAndSwap(last, now)
}

func (a *asker) publishOnce(ctx context.Context, event loads.Event) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	_, err := a.js.Publish(ctx, loads.Subject(a.prefix, a.instance, event.Tag), event.Encode(), jetstream.WithRetryAttempts(0))
	return err
}

// The server's answer to a second message on a subject of the load stream. It has one code for
// all that it did not store, as where the stream is full: only the text says why.
const (
	storeFailed   jetstream.ErrorCode = 10077
	maxPerSubject                     = "maximum messages per subject exceeded"
)

// isQueued reports whether the stream refused an event because it holds one of the same
// worker and tag. After any other error it does not, and the load has to take another way.
func isQueued(err error) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && refused.ErrorCode == storeFailed && refused.Description == maxPerSubject
}
