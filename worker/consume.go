package worker

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/loads"
)

// The delay before an event is delivered again after the store has failed. The
// longest one bounds how long service takes to resume once the store is back.
const (
	nakDelayMin = 50 * time.Millisecond
	nakDelayMax = 400 * time.Millisecond
)

// consume handles a load event from the stream. A lost ack or nak means that the
// event is delivered again, which costs a range.
func (l *loader) consume(msg jetstream.Msg) {
	event, err := loads.DecodeEvent(msg.Data(), maxStepLimit)
	if err != nil {
		l.log.Warn("load event ignored", zap.Error(err))
		_ = msg.TermWithReason(err.Error())
		return
	}
	l.submit(job{event, func(err error) {
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

// run consumes the load stream until ctx ends. When the stream or the consumer are
// gone, it makes them anew.
func (l *loader) run(ctx context.Context, js jetstream.JetStream, replicas int) {
	failing := false
	for ctx.Err() == nil {
		err := l.consumeStream(ctx, js, replicas, func() {
			if failing {
				l.log.Info("consuming load events again")
			}
			failing = false
		})
		if ctx.Err() == nil && !failing {
			l.log.Warn("consuming load events broke off, trying again", zap.Error(err))
		}
		failing = true
		pause(ctx, rewatchPause)
	}
}

// The loader's pull requests; short, so that a stream that is gone is noticed soon.
const (
	pullExpiry    = 5 * time.Second
	pullHeartbeat = time.Second
	pullBatch     = 256
)

// consumeStream consumes until ctx ends or something breaks.
func (l *loader) consumeStream(ctx context.Context, js jetstream.JetStream, replicas int, started func()) error {
	setup, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	consumer, err := openLoaderConsumer(setup, js, l.prefix, replicas)
	if err != nil {
		return err
	}
	broken := make(chan error, 1)
	events, err := consumer.Consume(l.consume,
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
	l.consuming.Store(true)
	select {
	case <-ctx.Done():
	case err = <-broken:
	}
	l.consuming.Store(false)
	events.Drain() // what has been delivered is still handled
	select {
	case <-events.Closed():
	case <-time.After(flushTimeout): // the server hangs
		events.Stop()
	}
	return err
}
