package kvwatch

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/internal/resource"
)

var (
	// ErrOther says that the bucket does not have the entry up to which it was read: it was made
	// again, or restored, or the entry was written again meanwhile. It has to be read from the
	// beginning.
	ErrOther = errors.New("the bucket cannot be read from where it was read to")

	// ErrTaken says that somebody else has the turn.
	ErrTaken = errors.New("somebody else reads the bucket in this role")
)

// Position is up to which entry a bucket was read. The zero value is the beginning.
type Position struct {
	Revision uint64
	Created  time.Time
}

// Entry is an entry of a bucket.
type Entry struct {
	Key     string // a part of a longer string
	Value   []byte
	Deleted bool
	Position
}

// Feed reads the entries of a bucket in the order of their revisions: those after a position that
// there are, and from then on every change. An entry that is written again before its turn comes
// is read in its new place only. It is for use by one goroutine.
//
// Unlike [Watcher] it does not restart by itself, for then it could not be told whether the bucket
// is still the same. Whoever reads opens another feed from the position that was reached. That
// the bucket is the same is proven by the entry at that position: it is still there, with the
// same time. A creation time proves nothing, since a restored bucket has that of the old one.
type Feed struct {
	conn    *nats.Conn
	inbox   *nats.Subscription
	msgs    chan *nats.Msg
	closed  chan struct{} // by the reader
	gone    chan struct{} // the subscription, perhaps with its connection
	silence *time.Timer

	prefix    int    // how much of a subject precedes the key
	delivered uint64 // messages so far
	pending   uint64 // entries that are still to come
	leave     func() // the gate, if there is much to read
	release   func(context.Context) error
}

// The server sends a heartbeat when there is nothing else to send for a while. When nothing at all
// has come for maxSilence, the feed has ended; that is the only limit to how long it takes.
const (
	heartbeat  = 3 * time.Second
	maxSilence = 7 * time.Second
)

// buffered is how many messages wait between the connection and the reader. Beyond that, the
// server's flow control holds them back.
const buffered = 1024

// OpenFeed begins to read a bucket after a position. Errors: [ErrOther],
// jetstream.ErrStreamNotFound.
func OpenFeed(ctx context.Context, js jetstream.JetStream, bucket string, after Position) (*Feed, error) {
	return openFeed(ctx, js, bucket, after, jetstream.ConsumerConfig{Name: nuid.Next(), Replicas: 1})
}

// turnLasts is how long a turn lasts after its owner was last seen.
const turnLasts = 5 * time.Second

// TakeTurn is OpenFeed for a role that only one process has at a time: whoever has the feed with
// this name. It has the turn until it releases it, or is not connected for turnLasts; nothing is
// written for that, and no clocks are compared. For the name is that of the consumer behind the
// feed. The server refuses a second one that delivers elsewhere ([ErrTaken]), and removes the
// consumer when nobody listens any more.
//
// Rarely two may have the turn for a moment, as when one of them is cut off. The role must be such
// that this does no harm.
func TakeTurn(ctx context.Context, js jetstream.JetStream, bucket, name string, after Position) (*Feed, error) {
	stream, err := js.Stream(ctx, resource.BucketStream(bucket))
	if err != nil {
		return nil, err
	}
	// With one replica the consumer could neither be used nor replaced while its server is away.
	f, err := openFeed(ctx, js, bucket, after, jetstream.ConsumerConfig{
		Durable: name, InactiveThreshold: turnLasts, Replicas: stream.CachedInfo().Config.Replicas,
	})
	if errors.Is(err, jetstream.ErrConsumerExists) {
		err = ErrTaken
	}
	return f, err
}

func openFeed(ctx context.Context, js jetstream.JetStream, bucket string, after Position, config jetstream.ConsumerConfig) (_ *Feed, err error) {
	name, inbox := resource.BucketStream(bucket), js.Conn().NewInbox()
	f := &Feed{
		conn:    js.Conn(),
		msgs:    make(chan *nats.Msg, buffered),
		closed:  make(chan struct{}),
		gone:    make(chan struct{}),
		silence: time.NewTimer(maxSilence),
		prefix:  len("$KV." + bucket + "."),
	}
	if f.inbox, err = f.conn.Subscribe(inbox, f.receive); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = f.abandon(ctx, err)
		}
	}()
	f.inbox.SetClosedHandler(func(string) { close(f.gone) })
	if err = f.inbox.SetPendingLimits(-1, -1); err != nil {
		return nil, err
	}
	config.DeliverSubject = inbox
	config.AckPolicy, config.MaxDeliver = jetstream.AckNonePolicy, 1
	config.FlowControl, config.IdleHeartbeat, config.MemoryStorage = true, heartbeat, true
	if after.Revision > 0 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, after.Revision
	}
	consumer, err := js.CreatePushConsumer(ctx, name, config)
	if err != nil {
		return nil, err
	}
	info := consumer.CachedInfo()
	f.pending = info.NumPending
	f.release = func(ctx context.Context) error { return js.DeleteConsumer(ctx, name, info.Name) }
	if f.pending > much {
		if f.leave, err = enter(ctx, f.conn); err != nil {
			return nil, err
		}
	}
	return f, f.checkSame(ctx, after)
}

// leaveGate lets others read much.
func (f *Feed) leaveGate() {
	if f.leave != nil {
		f.leave()
		f.leave = nil
	}
}

// abandon takes back what openFeed has done, and returns its error.
func (f *Feed) abandon(ctx context.Context, err error) error {
	if f.release == nil {
		f.Close()
	} else {
		_ = f.Release(ctx) // it passes by itself
	}
	return err
}

// receive hands a message to the reader. It runs on a goroutine of the subscription's own.
func (f *Feed) receive(m *nats.Msg) {
	select {
	case f.msgs <- m:
	case <-f.closed:
	}
}

// checkSame makes sure that the entry at a position is still there.
func (f *Feed) checkSame(ctx context.Context, at Position) error {
	if at.Revision == 0 {
		return nil
	}
	if f.pending == 0 {
		return ErrOther
	}
	first, err := f.Next(ctx)
	if err != nil {
		return err
	}
	if first.Revision != at.Revision || !first.Created.Equal(at.Created) {
		return ErrOther
	}
	return nil
}

// CaughtUp reports whether all entries have been read that were there when the server sent the
// latest one.
func (f *Feed) CaughtUp() bool { return f.pending == 0 }

// Next returns the next entry. The error is [ErrEnded], or ctx.Err() when ctx ends.
func (f *Feed) Next(ctx context.Context) (Entry, error) {
	f.silence.Reset(maxSilence)
	for {
		select {
		case m := <-f.msgs:
			if entry, ok, err := f.read(m); ok || err != nil {
				return entry, err
			}
			f.silence.Reset(maxSilence)
		case <-f.silence.C:
			return Entry{}, ErrEnded
		case <-f.gone:
			return Entry{}, ErrEnded
		case <-ctx.Done():
			return Entry{}, ctx.Err()
		}
	}
}

// NextWaiting returns the next entry if it is here already.
func (f *Feed) NextWaiting() (entry Entry, ok bool, err error) {
	for {
		select {
		case m := <-f.msgs:
			if entry, ok, err = f.read(m); ok || err != nil {
				return entry, ok, err
			}
		default:
			return entry, false, nil
		}
	}
}

// read reads a message, which may be an entry.
func (f *Feed) read(m *nats.Msg) (entry Entry, ok bool, err error) {
	if len(m.Header) > 0 && m.Header.Get("Status") != "" {
		return entry, false, f.control(m)
	}
	entry, err = f.decode(m)
	return entry, err == nil, err
}

// control answers the server's flow control, and makes sure that nothing got lost before a
// heartbeat.
func (f *Feed) control(m *nats.Msg) error {
	if last := m.Header.Get("Nats-Last-Consumer"); last != "" && last != strconv.FormatUint(f.delivered, 10) {
		return ErrEnded
	}
	reply := m.Header.Get("Nats-Consumer-Stalled")
	if m.Reply != "" {
		reply = m.Reply
	}
	if reply == "" {
		return nil
	}
	return f.conn.Publish(reply, nil)
}

func (f *Feed) decode(m *nats.Msg) (Entry, error) {
	about, err := m.Metadata()
	if err != nil {
		return Entry{}, err
	}
	if f.delivered++; about.Sequence.Consumer != f.delivered || len(m.Subject) <= f.prefix {
		return Entry{}, ErrEnded
	}
	if f.pending = about.NumPending; f.pending == 0 {
		f.leaveGate()
	}
	deleted := len(m.Header) > 0 && (m.Header.Get("KV-Operation") != "" || m.Header.Get("Nats-Marker-Reason") != "")
	return Entry{m.Subject[f.prefix:], m.Data, deleted, Position{about.Sequence.Stream, about.Timestamp}}, nil
}

// Close ends the feed. The server forgets it by itself, and with it the turn.
func (f *Feed) Close() {
	f.leaveGate()
	f.silence.Stop()
	close(f.closed)
	_ = f.inbox.Unsubscribe() // or the connection is closed
}

// Release closes the feed, and gives up the turn at once. It is for feeds that have not ended: after
// that the turn may be somebody else's.
func (f *Feed) Release(ctx context.Context) error {
	f.Close()
	return f.release(ctx)
}
