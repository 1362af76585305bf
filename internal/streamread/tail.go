package streamread

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Tail reads the messages of a stream from a sequence on, and those that come later, for as
// long as its consumer can be relied on. It is not for several goroutines.
type Tail struct {
	*feed
	js     jetstream.JetStream
	filter string
	late   uint64 // the message that the leader had, but not the consumer
}

// OpenTail begins to read at a sequence. The stream has to have limits retention. The tail is
// to be closed.
func OpenTail(ctx context.Context, js jetstream.JetStream, stream jetstream.Stream, filter string, from uint64) (*Tail, error) {
	f, err := openFeed(ctx, js, stream, filter, from)
	return &Tail{feed: f, js: js, filter: filter}, err
}

// Close ends reading.
func (t *Tail) Close() { t.close() }

// Pending is how many messages follow the one that was returned last.
func (t *Tail) Pending() uint64 { return t.pending }

// NextBatch waits for a message, and returns it with those that have arrived already: most, at
// most, and no more once they have that many bytes. An error is final.
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

// compare asks the leader for the next message, and whether what was read is still there: a
// stream that ends before it was restored, or made again, and its consumer is gone.
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
