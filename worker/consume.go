package worker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
)

// The delay before an event is delivered again after the store has failed. The longest delay
// bounds how long service takes to resume once the store is back.
const (
	nakDelayMin = 50 * time.Millisecond
	nakDelayMax = 400 * time.Millisecond
)

// eventConsumer hands the events of the load stream to the loader.
type eventConsumer struct {
	js        jetstream.JetStream
	prefix    messages.Prefix
	replicas  int // of the stream and the consumer, should they be missing
	submit    func(job)
	foreign   *foreignMessages
	log       *zap.Logger
	consuming atomic.Bool
}

// submitEvent submits the load event in msg. A lost ack or nak means that the event is
// delivered again, which costs a range.
func (c *eventConsumer) submitEvent(msg jetstream.Msg) {
	event, err := loads.DecodeEvent(msg.Data(), maxStepLimit)
	if err != nil {
		c.log.Warn("load event ignored", zap.Error(err))
		_ = msg.TermWithReason(err.Error())
		return
	}
	if c.foreign.drop(foreignEvent, event.Installation, event.Instance) {
		_ = msg.TermWithReason("of another installation")
		return
	}
	c.submit(job{event, func(err error) {
		if err == nil {
			_ = msg.Ack()
			return
		}
		_ = msg.NakWithDelay(nakDelay(msg))
	}})
}

// nakDelay grows with each delivery.
func nakDelay(msg jetstream.Msg) time.Duration {
	delay := nakDelayMin
	if meta, err := msg.Metadata(); err == nil {
		for i := uint64(1); i < meta.NumDelivered && delay < nakDelayMax; i++ {
			delay *= 2
		}
	}
	return min(delay, nakDelayMax)
}

// run consumes the load stream until ctx ends. If the stream or its consumer is gone, it
// creates them again.
func (c *eventConsumer) run(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		err := c.consumeStream(ctx, func() {
			if failing {
				c.log.Info("consuming load events again")
			}
			failing = false
		})
		if ctx.Err() == nil && !failing {
			c.log.Warn("load events cannot be consumed, trying again", zap.Error(err))
		}
		failing = true
		pause.For(ctx, rewatchPause)
	}
}

// The pull requests are short, so that a missing stream is noticed soon.
const (
	pullExpiry    = 5 * time.Second
	pullHeartbeat = time.Second
	pullBatch     = 256
)

// consumeStream consumes until ctx ends or something breaks.
func (c *eventConsumer) consumeStream(ctx context.Context, started func()) error {
	setup, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	consumer, err := openLoaderConsumer(setup, c.js, c.prefix, c.replicas)
	if err != nil {
		return err
	}
	broken := make(chan error, 1)
	events, err := consumer.Consume(c.submitEvent,
		jetstream.PullMaxMessages(pullBatch), jetstream.PullExpiry(pullExpiry), jetstream.PullHeartbeat(pullHeartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			select {
			case broken <- err:
			default: // the first one is enough
			}
		}))
	if err != nil {
		return err
	}
	started()
	c.consuming.Store(true)
	select {
	case <-ctx.Done():
	case err = <-broken:
	}
	c.consuming.Store(false)
	events.Drain() // events that have been delivered are still handled
	select {
	case <-events.Closed():
	case <-time.After(flushTimeout): // the server hangs
		events.Stop()
	}
	return err
}
