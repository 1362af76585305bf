package enrich

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The bounds of a batch. Unless it is configured otherwise, a server accepts at most 1,000
// messages in an atomic batch.
const (
	maxBatch      = 1000
	maxBatchBytes = 4 << 20
)

// reader reads the source in order, starting at a position. Its ordered consumer notices
// gaps in what arrives and reads again.
//
// One goroutine drains the consumer's iterator. A callback would not do: while it is held
// up, it can be overtaken by a callback of the consumer that replaces its own.
type reader struct {
	source   jetstream.Stream
	consumer jetstream.Consumer
	messages jetstream.MessagesContext
	events   chan event // closed when nothing more can be read
	err      error      // why not, once events is closed
	cancel   context.CancelFunc
	drained  chan struct{}
}

// errSource says that this reader cannot go on reading the source.
var errSource = errors.New("read the source")

// orphanAge is how long the server keeps the consumer of an enricher that died.
const orphanAge = 10 * time.Second

// newReader starts to read behind the sequence done.
func newReader(ctx context.Context, source jetstream.Stream, filter string, done uint64) (*reader, error) {
	consumer, err := source.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects:    []string{filter},
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       done + 1,
		InactiveThreshold: orphanAge,
		MaxResetAttempts:  1, // the next turn tries again
	})
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(2 * maxBatch))
	if err != nil {
		return nil, err
	}
	draining, cancel := context.WithCancel(context.Background())
	r := &reader{
		source: source, consumer: consumer, messages: messages,
		events: make(chan event, maxBatch), cancel: cancel, drained: make(chan struct{}),
	}
	go r.drain(draining)
	return r, nil
}

// drain passes on what arrives, until the reader is closed or nothing more can be read.
func (r *reader) drain(ctx context.Context) {
	defer close(r.drained)
	defer close(r.events)
	for {
		msg, err := r.messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			r.err = err
			return
		}
		meta, err := msg.Metadata()
		if err != nil {
			r.err = err
			return
		}
		select {
		case r.events <- event{meta.Sequence.Stream, msg.Subject(), msg.Headers(), msg.Data(), meta.NumPending}:
		case <-ctx.Done():
			return
		}
	}
}

// readBatch waits for an event, and returns it with those that have arrived already, up to
// the bounds of a batch.
func (r *reader) readBatch(ctx context.Context) (batch []event, err error) {
	select {
	case e, ok := <-r.events:
		if !ok {
			return nil, fmt.Errorf("%w: %w", errSource, r.err)
		}
		batch = append(batch, e)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for bytes := len(batch[0].data); len(batch) < maxBatch && bytes < maxBatchBytes; {
		select {
		case e, ok := <-r.events:
			if !ok {
				return batch, nil // the next call returns the reason
			}
			batch, bytes = append(batch, e), bytes+len(e.data)
		default:
			return batch, nil
		}
	}
	return batch, nil
}

// close stops reading, and returns when nothing is under way any more. Calling Stop alone
// would not do: it does not reach a consumer that is about to replace the present one.
func (r *reader) close() {
	r.cancel()
	<-r.drained
	r.messages.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if info := r.consumer.CachedInfo(); info != nil {
		_ = r.source.DeleteConsumer(ctx, info.Name) // if this fails, the server does it after orphanAge
	}
}
