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

	"github.com/idworker/idworker/internal/leader"
)

// The bounds of one request for messages. At most three requests are open.
const (
	batch      = 1000
	batchBytes = 2 << 20
)

const (
	// quietAfter is how long nothing arrives until the leader is asked.
	quietAfter = time.Second

	// orphanAge is how long the server keeps the consumer of a process that died.
	orphanAge = 30 * time.Second

	// exchangeTimeout bounds a request to JetStream.
	exchangeTimeout = 5 * time.Second
)

// errQuiet says that the consumer has no more messages, or is not to be relied on. Whether
// the stream has more, its leader knows.
var errQuiet = errors.New("the consumer delivers nothing")

// feed is a consumer, and what it has been asked for.
type feed struct {
	conn     *nats.Conn
	stream   jetstream.Stream
	consumer string
	requests string // the subject of requests for messages
	inbox    string
	sub      *nats.Subscription
	arrived  chan *nats.Msg

	delivered uint64 // messages that the consumer delivered
	asked     int    // messages that were asked for and have not come
	oversized bool   // the next message is larger than a request allows
	drained   bool   // none follows
}

// openFeed makes a consumer that begins at a sequence.
func openFeed(ctx context.Context, js jetstream.JetStream, stream jetstream.Stream, filter string, from uint64) (*feed, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	f := &feed{conn: js.Conn(), stream: stream, consumer: nuid.Next(), arrived: make(chan *nats.Msg, 4*batch)}
	f.requests = leader.APISubject(js, "CONSUMER.MSG.NEXT."+stream.CachedInfo().Config.Name+"."+f.consumer)
	f.inbox = f.conn.NewInbox()
	var err error
	// Not SubscribeSync: NextMsg makes an error of an event that has the header Status: 503.
	if f.sub, err = f.conn.ChanSubscribe(f.inbox, f.arrived); err != nil {
		return nil, err
	}
	made, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Name: f.consumer, FilterSubjects: []string{filter}, AckPolicy: jetstream.AckNonePolicy,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
		InactiveThreshold: orphanAge, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		_ = f.sub.Unsubscribe() // fails only if the connection is closed
		return nil, err
	}
	f.drained = made.CachedInfo().NumPending == 0
	return f, nil
}

func (f *feed) close() {
	_ = f.sub.Unsubscribe()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = f.stream.DeleteConsumer(ctx, f.consumer) // if this fails, the server does it after orphanAge
}

// next returns the next message, or errQuiet.
func (f *feed) next(ctx context.Context) (Message, error) {
	for !f.drained {
		if err := f.request(); err != nil {
			return Message{}, err
		}
		msg, err := f.await(ctx)
		if err != nil {
			return Message{}, err
		}
		if meta, err := msg.Metadata(); err == nil {
			return f.receive(msg, meta)
		}
		if err := f.receiveStatus(msg); err != nil {
			return Message{}, err
		}
	}
	return Message{}, errQuiet
}

// request asks for more messages when half of those asked for have come.
func (f *feed) request() error {
	if f.asked > batch {
		return nil
	}
	n, limit := batch, fmt.Sprintf(`,"max_bytes":%d`, batchBytes)
	if f.oversized {
		n, limit, f.oversized = 1, "", false
	}
	f.asked += n
	ask := fmt.Sprintf(`{"batch":%d,"expires":%d%s}`, n, orphanAge, limit)
	return f.conn.PublishRequest(f.requests, f.inbox, []byte(ask))
}

// await waits for what arrives next.
func (f *feed) await(ctx context.Context) (*nats.Msg, error) {
	select {
	case msg := <-f.arrived:
		return msg, nil
	default:
	}
	timer := time.NewTimer(quietAfter)
	defer timer.Stop()
	select {
	case msg := <-f.arrived:
		return msg, nil
	case <-timer.C:
		return nil, errQuiet
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// receive takes a message of the stream.
func (f *feed) receive(msg *nats.Msg, meta *nats.MsgMetadata) (Message, error) {
	if meta.Consumer != f.consumer || meta.Sequence.Consumer != f.delivered+1 {
		return Message{}, errQuiet
	}
	f.delivered++
	f.asked = max(f.asked-1, 0)
	f.drained = meta.NumPending == 0
	return Message{
		Subject: msg.Subject, Sequence: meta.Sequence.Stream, Time: meta.Timestamp, Header: msg.Header, Data: msg.Data,
		Malformed: msg.Header == nil && msg.Size() > len(msg.Subject)+len(msg.Reply)+len(msg.Data),
	}, nil
}

// receiveStatus takes a message of the server: that a request has ended, or the consumer.
func (f *feed) receiveStatus(msg *nats.Msg) error {
	left, err := strconv.Atoi(msg.Header.Get("Nats-Pending-Messages"))
	if err != nil {
		return errQuiet
	}
	f.asked = max(f.asked-left, 0)
	f.oversized = left == batch && strings.Contains(msg.Header.Get("Description"), "MaxBytes")
	return nil
}
