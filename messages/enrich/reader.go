package enrich

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/internal/leader"
)

// The bounds of a batch, and of what a reader asks for at once. Unless it is configured
// otherwise, a server accepts at most 1,000 messages in an atomic batch.
const (
	maxBatch      = 1000
	maxBatchBytes = 2 << 20
)

const (
	// orphanAge is how long the server keeps the consumer of an enricher that died.
	orphanAge = 10 * time.Second

	// compareEvery is how long a reader waits for an event before it asks the stream whether
	// there is one.
	compareEvery = time.Second
)

// errSource says that this reader cannot go on reading the source.
var errSource = errors.New("read the source")

// reader reads the source in order, behind a position, with a pull consumer of its own. It
// does not use the client's loop for that, which takes some events for messages of the
// server: an event may have any header and no body. What a server alone can set is the reply
// subject of a delivery.
type reader struct {
	js       jetstream.JetStream
	stream   jetstream.Stream
	filter   string
	whole    bool // the filter matches all subjects: what is missing was removed
	consumer string
	inbox    string
	sub      *nats.Subscription
	arrived  chan *nats.Msg // not the client's queue, which takes some events for errors

	last      uint64 // sequence of the event read last, at first the position
	delivered uint64 // events of the consumer
	open      int    // events that were asked for and have not come
	oversized bool   // the next event is larger than what is asked for at once
	waiting   uint64 // the event that the stream had, but not the consumer
}

// newReader starts to read behind the sequence done.
func newReader(ctx context.Context, js jetstream.JetStream, source jetstream.Stream, filter string, done uint64) (*reader, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	r := &reader{js: js, stream: source, filter: filter, last: done, consumer: nuid.Next(), inbox: js.Conn().NewInbox(), arrived: make(chan *nats.Msg, 4*maxBatch)}
	r.whole = filter == ">" || isOneOf(source.CachedInfo().Config, filter)
	var err error
	if r.sub, err = js.Conn().ChanSubscribe(r.inbox+".*", r.arrived); err != nil {
		return nil, err
	}
	_, err = source.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Name: r.consumer, FilterSubjects: []string{filter}, AckPolicy: jetstream.AckNonePolicy,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: done + 1,
		InactiveThreshold: orphanAge, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		r.close()
		return nil, fmt.Errorf("%w: %w", errSource, err)
	}
	return r, nil
}

// isOneOf reports whether the filter covers all that a stream with that configuration has.
func isOneOf(cfg jetstream.StreamConfig, filter string) bool {
	for _, s := range cfg.Subjects {
		if !covers(filter, s) {
			return false
		}
	}
	return cfg.Mirror == nil && len(cfg.Sources) == 0 && cfg.SubjectTransform == nil
}

// close stops reading.
func (r *reader) close() {
	_ = r.sub.Unsubscribe() // fails only if the connection is closed
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = r.stream.DeleteConsumer(ctx, r.consumer) // if this fails, the server does it after orphanAge
}

// readBatch waits for an event, and returns it with those that have arrived already, up to
// the bounds of a batch.
func (r *reader) readBatch(ctx context.Context) (batch []event, err error) {
	for bytes := 0; len(batch) < maxBatch && bytes < maxBatchBytes; {
		if err := r.request(); err != nil {
			return nil, err
		}
		if len(batch) > 0 && len(r.arrived) == 0 {
			break
		}
		msg, err := r.next(ctx)
		if err != nil {
			return nil, err
		}
		if msg == nil {
			continue
		}
		e, isEvent, err := r.receive(msg)
		if err != nil {
			return nil, err
		}
		if isEvent {
			batch, bytes = append(batch, e), bytes+msg.Size()
		}
	}
	return batch, nil
}

// request asks for more events when half of those asked for have come.
func (r *reader) request() error {
	if r.open > maxBatch/2 {
		return nil
	}
	ask := fmt.Sprintf(`{"batch":%d,"max_bytes":%d,"expires":%d}`, maxBatch, maxBatchBytes, time.Minute)
	if r.open += maxBatch; r.oversized {
		r.open, r.oversized, ask = 1, false, fmt.Sprintf(`{"batch":1,"expires":%d}`, time.Minute)
	}
	subject := leader.APISubject(r.js, "CONSUMER.MSG.NEXT."+r.stream.CachedInfo().Config.Name+"."+r.consumer)
	return r.js.Conn().PublishRequest(subject, r.inbox+".1", []byte(ask))
}

// next returns the next message, or nil if there is none and the stream has none either.
func (r *reader) next(ctx context.Context) (*nats.Msg, error) {
	select {
	case msg := <-r.arrived:
		return msg, nil
	default:
	}
	late := time.NewTimer(compareEvery)
	defer late.Stop()
	select {
	case msg := <-r.arrived:
		return msg, nil
	case <-late.C:
		return nil, r.compare(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// compare asks the stream itself for the next event. If the same one is there twice, and
// the consumer has not delivered it, the consumer is not to be relied on.
func (r *reader) compare(ctx context.Context) error {
	msg, err := leader.Next(ctx, r.js, r.stream.CachedInfo().Config.Name, r.filter, r.last+1)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound), err == nil && len(r.arrived) > 0:
		r.waiting = 0
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", errSource, err)
	case r.waiting == msg.Sequence:
		return fmt.Errorf("%w: the consumer does not deliver event %d", errSource, msg.Sequence)
	}
	r.waiting = msg.Sequence
	return nil
}

// receive tells events from messages of the server, and notes what they say about the events
// to come. An error means that reading has to begin again.
func (r *reader) receive(msg *nats.Msg) (e event, isEvent bool, err error) {
	meta, err := msg.Metadata()
	if err != nil {
		return event{}, false, r.receiveStatus(msg)
	}
	if meta.Consumer != r.consumer || meta.Sequence.Consumer != r.delivered+1 || meta.Sequence.Stream <= r.last {
		return event{}, false, fmt.Errorf("%w: event %d was delivered as number %d, behind %d and number %d",
			errSource, meta.Sequence.Stream, meta.Sequence.Consumer, r.last, r.delivered)
	}
	e = event{
		seq: meta.Sequence.Stream, time: meta.Timestamp, subject: msg.Subject, header: msg.Header, data: msg.Data, behind: meta.NumPending,
		skipped: meta.Sequence.Stream - r.last - 1,
	}
	e.malformed = msg.Header == nil && msg.Size() > len(msg.Subject)+len(msg.Reply)+len(msg.Data)
	r.delivered++
	r.last, r.waiting = e.seq, 0
	r.open = max(r.open-1, 0)
	return e, true, nil
}

// receiveStatus notes what the server says: a request has ended, or the consumer has.
func (r *reader) receiveStatus(msg *nats.Msg) error {
	switch about := strings.ToLower(msg.Header.Get("Description")); {
	case msg.Header.Get("Status") == "408", strings.Contains(about, "batch completed"):
	case msg.Header.Get("Status") == "409" && strings.Contains(about, "maxbytes"):
		r.oversized = msg.Header.Get("Nats-Pending-Messages") == strconv.Itoa(maxBatch)
	default:
		return fmt.Errorf("%w: %s %s", errSource, msg.Header.Get("Status"), about)
	}
	left, err := strconv.Atoi(msg.Header.Get("Nats-Pending-Messages"))
	if err != nil {
		left = r.open
	}
	r.open = max(r.open-left, 0)
	return nil
}

// removed is how many events the source removed before they could be read. Between events
// that were read there may also be others that the filter does not match: then what is
// before the first one that the stream has counts as removed.
func (r *reader) removed(ctx context.Context, batch []event) (n uint64, err error) {
	var first uint64
	for _, e := range batch {
		if e.skipped == 0 {
			continue
		}
		if !r.whole && first == 0 {
			info, err := r.stream.Info(ctx)
			if err != nil {
				return 0, fmt.Errorf("%w: %w", errSource, err)
			}
			first = info.State.FirstSeq
		}
		if begin := e.seq - e.skipped; r.whole {
			n += e.skipped
		} else if first > begin {
			n += min(first, e.seq) - begin
		}
	}
	return n, nil
}
