package streamread

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
)

// The bounds of a request for messages. At most three requests are open.
const (
	batch      = 1000
	batchBytes = 2 << 20
)

const (
	// quietAfter is the silence after which the reader queries the leader.
	quietAfter = time.Second

	// orphanAge is the time for which the server keeps the consumer of a
	// process that died.
	orphanAge = 30 * time.Second
)

// errQuiet means that the consumer has no more messages, or that none has
// arrived for a while. The stream's leader may have more.
var errQuiet = errors.New("consumer delivers no messages")

// errUnreliable means that the consumer has ended, or has lost a message.
var errUnreliable = errors.New("consumer out of sync")

// feed is a consumer with its open requests.
type feed struct {
	conn     *nats.Conn
	stream   jetstream.Stream
	consumer string
	requests string // the subject of requests for messages
	inbox    string
	sub      *nats.Subscription
	arrived  chan *nats.Msg

	from      uint64 // everything below was received, or is not there
	delivered uint64 // messages that the consumer delivered
	bytes     int    // their size
	requested int    // messages requested that have not arrived
	// The next message is larger than a request allows.
	oversized bool
	// Messages still to come, according to the consumer.
	pending uint64
}

// openFeed creates a consumer that begins at a sequence.
func openFeed(ctx context.Context, js jetstream.JetStream, stream jetstream.Stream, filter string, from uint64) (*feed, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	f := &feed{conn: js.Conn(), stream: stream, consumer: nuid.Next(), from: from, arrived: make(chan *nats.Msg, 4*batch)}
	f.requests = APISubject(js, "CONSUMER.MSG.NEXT."+stream.CachedInfo().Config.Name+"."+f.consumer)
	f.inbox = f.conn.NewInbox()
	var err error
	// Not SubscribeSync: NextMsg turns an event with the header Status: 503
	// into an error.
	if f.sub, err = f.conn.ChanSubscribe(f.inbox, f.arrived); err != nil {
		return nil, err
	}
	if f.pending, err = createConsumer(ctx, stream, f.consumer, filter, from); err != nil {
		_ = f.sub.Unsubscribe() // fails only if the connection is closed
		return nil, err
	}
	return f, nil
}

// createConsumer creates a consumer that begins at a sequence, and returns the
// number of messages it will deliver.
func createConsumer(ctx context.Context, stream jetstream.Stream, name, filter string, from uint64) (pending uint64, err error) {
	inactive := orphanAge
	if most := stream.CachedInfo().Config.ConsumerLimits.InactiveThreshold; most > 0 {
		inactive = min(inactive, most)
	}
	c, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Name: name, FilterSubjects: []string{filter}, AckPolicy: jetstream.AckNonePolicy,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
		InactiveThreshold: inactive, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return 0, err
	}
	return c.CachedInfo().NumPending, nil
}

// Count counts the messages on subjects of the filter from a sequence on, by
// the pending messages of a new consumer.
func Count(ctx context.Context, stream jetstream.Stream, filter string, from uint64) (uint64, error) {
	name := nuid.Next()
	n, err := createConsumer(ctx, stream, name, filter, from)
	if err == nil {
		// If this fails, the server deletes it after orphanAge.
		_ = stream.DeleteConsumer(ctx, name)
	}
	return n, err
}

func (f *feed) close() {
	_ = f.sub.Unsubscribe()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// If this fails, the server deletes it after orphanAge.
	_ = f.stream.DeleteConsumer(ctx, f.consumer)
}

// next returns the next message to arrive, and waits for quietAfter at most. It
// returns nil for a status of the server.
func (f *feed) next(ctx context.Context) (*Message, error) {
	if err := f.request(); err != nil {
		return nil, err
	}
	msg, err := f.await(ctx)
	if err != nil {
		return nil, err
	}
	meta, err := msg.Metadata()
	if err != nil {
		return nil, f.receiveStatus(msg)
	}
	return f.receive(msg, meta)
}

// request requests more messages once half of them have arrived.
func (f *feed) request() error {
	if f.requested > batch {
		return nil
	}
	n, limit := batch, fmt.Sprintf(`,"max_bytes":%d`, batchBytes)
	if f.oversized {
		n, limit, f.oversized = 1, "", false
	}
	f.requested += n
	ask := fmt.Sprintf(`{"batch":%d,"expires":%d%s}`, n, orphanAge, limit)
	return f.conn.PublishRequest(f.requests, f.inbox, []byte(ask))
}

// await waits for the next message to arrive.
func (f *feed) await(ctx context.Context) (*nats.Msg, error) {
	select {
	case msg := <-f.arrived:
		return msg, nil
	default:
	}
	select {
	case msg := <-f.arrived:
		return msg, nil
	case <-time.After(quietAfter):
		return nil, errQuiet
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// receive accepts a message of the stream.
func (f *feed) receive(msg *nats.Msg, meta *nats.MsgMetadata) (*Message, error) {
	if meta.Consumer != f.consumer || meta.Sequence.Consumer != f.delivered+1 || meta.Sequence.Stream < f.from {
		return nil, fmt.Errorf("%w: message %d is delivery %d, after delivery %d and message %d", errUnreliable,
			meta.Sequence.Stream, meta.Sequence.Consumer, f.delivered, f.from-1)
	}
	f.from = meta.Sequence.Stream + 1
	f.delivered++
	f.bytes += msg.Size()
	f.requested = max(f.requested-1, 0)
	f.pending = meta.NumPending
	return &Message{
		Subject: msg.Subject, Sequence: meta.Sequence.Stream, Time: meta.Timestamp, Header: msg.Header, Data: msg.Data,
		Malformed: msg.Header == nil && msg.Size() > len(msg.Subject)+len(msg.Reply)+len(msg.Data),
	}, nil
}

// receiveStatus accepts a status of the server: a request or the consumer has
// ended.
func (f *feed) receiveStatus(msg *nats.Msg) error {
	left, err := strconv.Atoi(msg.Header.Get("Nats-Pending-Messages"))
	if err != nil {
		return fmt.Errorf("%w: %s %s", errUnreliable, msg.Header.Get("Status"), msg.Header.Get("Description"))
	}
	f.requested = max(f.requested-left, 0)
	f.oversized = left == batch && strings.Contains(msg.Header.Get("Description"), "MaxBytes")
	return nil
}
