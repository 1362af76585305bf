package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
)

// eventConsumer hands the events of the load stream to the loader, as many as it has room for.
// The others stay in the stream.
type eventConsumer struct {
	js        jetstream.JetStream
	prefix    messages.Prefix
	replicas  int // of the stream and the consumer, should they be missing
	submit    func(job)
	awaitRoom func(context.Context) int
	foreign   *foreignMessages
	log       *zap.Logger
	consuming atomic.Bool
}

// submitEvent submits the load event in msg, which the stream gives to nobody else for that
// long.
func (c *eventConsumer) submitEvent(msg jetstream.Msg, until time.Time) {
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
	c.submit(job{event, msg, until})
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
		pause.For(ctx, consumeAgain)
	}
}

// consumeAgain is the pause before the stream is consumed again.
const consumeAgain = 500 * time.Millisecond

// The pull requests are short, so that a missing stream is noticed soon.
const (
	pullExpiry    = 5 * time.Second
	pullHeartbeat = time.Second
	pullBatch     = 256
)

// ackMargin is how long an ack may be under way.
const ackMargin = time.Second

// consumeStream consumes until ctx ends or something breaks.
func (c *eventConsumer) consumeStream(ctx context.Context, started func()) error {
	setup, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	consumer, err := openLoaderConsumer(setup, c.js, c.prefix, c.replicas)
	if err != nil {
		return err
	}
	started()
	c.consuming.Store(true)
	defer c.consuming.Store(false)
	held := consumer.CachedInfo().Config.AckWait - ackMargin
	for {
		n := c.awaitRoom(ctx)
		if n == 0 {
			return ctx.Err()
		}
		if err := c.pull(ctx, consumer, n, held); err != nil {
			return err
		}
	}
}

// pull asks the stream for events, and submits those that come in the next seconds.
func (c *eventConsumer) pull(ctx context.Context, consumer jetstream.Consumer, n int, held time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, pullExpiry)
	defer cancel()
	batch, err := consumer.Fetch(n, jetstream.FetchContext(ctx), jetstream.FetchHeartbeat(pullHeartbeat))
	if err != nil {
		return err
	}
	for msg := range batch.Messages() {
		c.submitEvent(msg, time.Now().Add(held))
	}
	if err := batch.Error(); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
