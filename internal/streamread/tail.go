package streamread

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Tail reads the messages of a stream from a sequence on, present and future,
// as long as its consumer is in sync. It is not safe for concurrent use.
type Tail struct {
	*puller
	js     jetstream.JetStream
	filter string
	// The message that the leader had, but not the consumer.
	late uint64
}

// OpenTail begins to read at a sequence. The stream must have limits retention.
// The caller must close the tail.
func OpenTail(ctx context.Context, js jetstream.JetStream, stream jetstream.Stream, filter string, from uint64) (*Tail, error) {
	p, err := openPuller(ctx, js, stream, filter, from)
	return &Tail{puller: p, js: js, filter: filter}, err
}

// Close ends reading.
func (t *Tail) Close() { t.close() }

// Pending returns the number of messages after the last returned message.
func (t *Tail) Pending() uint64 { return t.pending }

// NextBatch waits for a message, and returns it with those that have already
// arrived, up to most messages, and no more once they have that many bytes. An
// error is final.
func (t *Tail) NextBatch(ctx context.Context, most, bytes int) (batch []Message, err error) {
	for limit := t.bytes + bytes; len(batch) < most && t.bytes < limit && (len(batch) == 0 || len(t.arrived) > 0); {
		msg, err := t.next(ctx)
		if errors.Is(err, errQuiet) {
			err = t.compare(ctx)
		}
		if err != nil {
			return nil, err
		}
		if msg != nil {
			t.late = 0
			batch = append(batch, *msg)
		}
	}
	return batch, nil
}

// compare requests the next message from the leader, and checks that the stream
// still has the messages read: a stream that ends before them was restored or
// recreated, and its consumer is gone.
func (t *Tail) compare(ctx context.Context) error {
	info, err := t.stream.Info(ctx)
	if err != nil {
		return err
	}
	if info.State.LastSeq < t.from-1 {
		return fmt.Errorf("%w: stream ends at sequence %d, before %d", errUnreliable, info.State.LastSeq, t.from-1)
	}
	msg, err := Next(ctx, t.js, t.stream.CachedInfo().Config.Name, t.filter, t.from)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound), err == nil && len(t.arrived) > 0:
		t.late = 0
		return nil
	case err != nil:
		return err
	case t.late == msg.Sequence:
		return fmt.Errorf("%w: message %d was not delivered", errUnreliable, msg.Sequence)
	}
	t.late = msg.Sequence
	return nil
}
