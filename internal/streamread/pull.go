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

// puller is a consumer with its open requests.
type puller struct {
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

// openPuller creates a consumer that begins at a sequence.
func openPuller(ctx context.Context, js jetstream.JetStream, stream jetstream.Stream, filter string, from uint64) (*puller, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p := &puller{conn: js.Conn(), stream: stream, consumer: nuid.Next(), from: from, arrived: make(chan *nats.Msg, 4*batch)}
	p.requests = APISubject(js, "CONSUMER.MSG.NEXT."+stream.CachedInfo().Config.Name+"."+p.consumer)
	p.inbox = p.conn.NewInbox()
	var err error
	// Not SubscribeSync: NextMsg turns an event with the header Status: 503
	// into an error.
	if p.sub, err = p.conn.ChanSubscribe(p.inbox, p.arrived); err != nil {
		return nil, err
	}
	if p.pending, err = createConsumer(ctx, stream, p.consumer, filter, from); err != nil {
		_ = p.sub.Unsubscribe() // fails only if the connection is closed
		return nil, err
	}
	return p, nil
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

func (p *puller) close() {
	_ = p.sub.Unsubscribe()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// If this fails, the server deletes it after orphanAge.
	_ = p.stream.DeleteConsumer(ctx, p.consumer)
}

// next returns the next message to arrive, and waits for quietAfter at most. It
// returns nil for a status of the server.
func (p *puller) next(ctx context.Context) (*Message, error) {
	if err := p.request(); err != nil {
		return nil, err
	}
	msg, err := p.await(ctx)
	if err != nil {
		return nil, err
	}
	meta, err := msg.Metadata()
	if err != nil {
		return nil, p.receiveStatus(msg)
	}
	return p.receive(msg, meta)
}

// request requests more messages once half of them have arrived.
func (p *puller) request() error {
	if p.requested > batch {
		return nil
	}
	n, limit := batch, fmt.Sprintf(`,"max_bytes":%d`, batchBytes)
	if p.oversized {
		n, limit, p.oversized = 1, "", false
	}
	p.requested += n
	ask := fmt.Sprintf(`{"batch":%d,"expires":%d%s}`, n, orphanAge, limit)
	return p.conn.PublishRequest(p.requests, p.inbox, []byte(ask))
}

// await waits for the next message to arrive.
func (p *puller) await(ctx context.Context) (*nats.Msg, error) {
	select {
	case msg := <-p.arrived:
		return msg, nil
	default:
	}
	select {
	case msg := <-p.arrived:
		return msg, nil
	case <-time.After(quietAfter):
		return nil, errQuiet
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// receive accepts a message of the stream.
func (p *puller) receive(msg *nats.Msg, meta *nats.MsgMetadata) (*Message, error) {
	if meta.Consumer != p.consumer || meta.Sequence.Consumer != p.delivered+1 || meta.Sequence.Stream < p.from {
		return nil, fmt.Errorf("%w: message %d is delivery %d, after delivery %d and message %d", errUnreliable,
			meta.Sequence.Stream, meta.Sequence.Consumer, p.delivered, p.from-1)
	}
	p.from = meta.Sequence.Stream + 1
	p.delivered++
	p.bytes += msg.Size()
	p.requested = max(p.requested-1, 0)
	p.pending = meta.NumPending
	return &Message{
		Subject: msg.Subject, Sequence: meta.Sequence.Stream, Time: meta.Timestamp, Header: msg.Header, Data: msg.Data,
		Malformed: msg.Header == nil && msg.Size() > len(msg.Subject)+len(msg.Reply)+len(msg.Data),
	}, nil
}

// receiveStatus accepts a status of the server: a request or the consumer has
// ended.
func (p *puller) receiveStatus(msg *nats.Msg) error {
	left, err := strconv.Atoi(msg.Header.Get("Nats-Pending-Messages"))
	if err != nil {
		return fmt.Errorf("%w: %s %s", errUnreliable, msg.Header.Get("Status"), msg.Header.Get("Description"))
	}
	p.requested = max(p.requested-left, 0)
	p.oversized = left == batch && strings.Contains(msg.Header.Get("Description"), "MaxBytes")
	return nil
}
