package streamread

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/subject"
)

// Reader reads messages of a stream. It is not safe for concurrent use.
type Reader struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	filter  string
	next    uint64 // everything below was returned, or is not there
	through uint64

	bulk   bool    // a consumer may be used
	puller *puller // nil if there is none at the moment

	// Without a consumer, by requests to the leader alone: messages that were
	// read but not returned, and the number of sequences to request at once.
	ahead  []Message
	window uint64
}

const (
	// patience bounds retries without any progress.
	patience = 30 * time.Second
	retry    = 200 * time.Millisecond
)

// Open reads the messages on subjects of the filter (empty: all) in a range of
// sequences. The stream's settings come from its cached info. The caller must
// close the reader.
func Open(js jetstream.JetStream, stream jetstream.Stream, filter string, from, through uint64) *Reader {
	if filter == "" {
		filter = ">"
	}
	return &Reader{
		js: js, stream: stream, filter: filter, next: max(from, 1), through: through,
		bulk: stream.CachedInfo().Config.Retention == jetstream.LimitsPolicy,
	}
}

// WithoutConsumer makes the reader request messages from the leader instead of
// creating a consumer. That takes several times as long, and needs no other
// right.
func (r *Reader) WithoutConsumer() *Reader {
	r.bulk = false
	return r
}

// Extend raises the sequence at which the reader ends.
func (r *Reader) Extend(through uint64) { r.through = max(r.through, through) }

// Next returns the next message, or io.EOF after the last. After any other
// error there may be more. Failures are retried for half a minute.
func (r *Reader) Next(ctx context.Context) (Message, error) {
	began := time.Now()
	for {
		msg, err := r.read(ctx)
		switch {
		case err == nil && msg.Sequence <= r.through:
			r.next = msg.Sequence + 1
			return msg, nil
		case err == nil, errors.Is(err, jetstream.ErrMsgNotFound), errors.Is(err, io.EOF):
			r.next = r.through + 1
			r.Close()
			return Message{}, io.EOF
		case ctx.Err() != nil:
			return Message{}, context.Cause(ctx)
		case isFinal(err), time.Since(began) > patience:
			return Message{}, fmt.Errorf("read stream %s at sequence %d: %w", r.stream.CachedInfo().Config.Name, r.next, err)
		}
		pause.For(ctx, retry)
	}
}

// isFinal reports whether retrying cannot help.
func isFinal(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code < 500 || errors.Is(err, nats.ErrConnectionClosed)
}

// read returns the next message, from the consumer or, if that has none, from
// the leader.
func (r *Reader) read(ctx context.Context) (Message, error) {
	if r.next > r.through {
		return Message{}, io.EOF
	}
	if r.bulk {
		msg, err := r.pull(ctx)
		if !errors.Is(err, errQuiet) && !errors.Is(err, errUnreliable) {
			return msg, err
		}
		r.Close()
		return Next(ctx, r.js, r.stream.CachedInfo().Config.Name, r.filter, r.next)
	}
	if len(r.ahead) == 0 {
		if err := r.readAhead(ctx); err != nil {
			return Message{}, err
		}
	}
	msg := r.ahead[0]
	r.ahead = r.ahead[1:]
	return msg, nil
}

func (r *Reader) pull(ctx context.Context) (Message, error) {
	if r.puller == nil {
		p, err := openPuller(ctx, r.js, r.stream, r.filter, r.next)
		if err != nil {
			return Message{}, err
		}
		r.puller = p
	}
	for r.puller.pending > 0 {
		if msg, err := r.puller.next(ctx); err != nil {
			return Message{}, err
		} else if msg != nil {
			return *msg, nil
		}
	}
	return Message{}, errQuiet
}

// The bounds of reading ahead, in messages and in bytes.
const (
	minAhead   = 4
	maxAhead   = 256
	aheadBytes = 2 << 20
)

// readAhead finds the next message at any later sequence. Then it requests the
// sequences after it concurrently, in a window that adapts to the hits.
func (r *Reader) readAhead(ctx context.Context) error {
	name := r.stream.CachedInfo().Config.Name
	first, err := Next(ctx, r.js, name, r.filter, r.next)
	if err != nil {
		return err
	}
	r.window = max(r.window, minAhead)
	var sequences []uint64
	for seq := first.Sequence + 1; seq <= min(first.Sequence+r.window, r.through); seq++ {
		sequences = append(sequences, seq)
	}
	found, err := Many(ctx, r.js, name, sequences)
	if err != nil {
		return err
	}
	r.ahead = append(r.ahead[:0], first)
	bytes := 0
	for _, msg := range found {
		if msg != nil && subject.Covers(r.filter, msg.Subject) {
			r.ahead = append(r.ahead, *msg)
			bytes += len(msg.Data)
		}
	}
	if 2*len(r.ahead) > len(sequences) && bytes < aheadBytes/2 {
		r.window = min(2*r.window, maxAhead)
	} else {
		r.window /= 2
	}
	return nil
}

// Close ends reading. It may be called more than once.
func (r *Reader) Close() {
	if r.puller != nil {
		r.puller.close()
		r.puller = nil
	}
}

// Rights are the rights to read a stream.
func Rights(stream string) rights.Rights {
	return rights.Join(
		RightsWithoutConsumer(stream),
		rights.Publish(rights.API("CONSUMER.CREATE."+stream+".>"),
			rights.API("CONSUMER.MSG.NEXT."+stream+".>"), rights.API("CONSUMER.DELETE."+stream+".>")),
	)
}

// RightsWithoutConsumer are the rights to read a stream with
// [Reader.WithoutConsumer].
func RightsWithoutConsumer(stream string) rights.Rights {
	return rights.Join(rights.Publish(rights.StreamInfo(stream)), rights.ReadLeader(stream))
}
