package kv

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// Feed reads the entries of a bucket in the order of their revisions: those that there are,
// and from then on every change. An entry that is written again before its turn comes is
// read in its new place only. It is for use by one goroutine.
//
// It does not restart by itself, as nats.go's watcher does, for then it could not be told whether the
// bucket is still the same.
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

// ErrFeedEnded means that a feed broke off, for instance because the connection was
// closed or the server fell silent.
var ErrFeedEnded = errors.New("feed of the bucket ended")

// List passes all entries of a bucket to visit, in the order of their revisions. A
// replica that lags, and concurrent writes, may hide some. It takes as long as
// entries arrive. Errors: those of [Follow] and [Feed.Next].
func List(ctx context.Context, js jetstream.JetStream, bucket string, visit func(Entry)) error {
	feed, err := Follow(ctx, js, bucket)
	if err != nil {
		return err
	}
	defer feed.Close()
	for !feed.CaughtUp() {
		entry, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		visit(entry)
	}
	return nil
}

// Follow begins to read a bucket. Errors: jetstream.ErrStreamNotFound.
func Follow(ctx context.Context, js jetstream.JetStream, bucket string) (_ *Feed, err error) {
	name, inbox := StreamName(bucket), js.Conn().NewInbox()
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
			f.Close()
		}
	}()
	f.inbox.SetClosedHandler(func(string) { close(f.gone) })
	if err = f.inbox.SetPendingLimits(-1, -1); err != nil {
		return nil, err
	}
	consumer, err := js.CreatePushConsumer(ctx, name, jetstream.ConsumerConfig{
		Name: nuid.Next(), Replicas: 1, DeliverSubject: inbox, AckPolicy: jetstream.AckNonePolicy, MaxDeliver: 1,
		FlowControl: true, IdleHeartbeat: heartbeat, MemoryStorage: true,
	})
	if err != nil {
		return nil, err
	}
	f.pending = consumer.CachedInfo().NumPending
	if f.pending > much {
		if f.leave, err = enter(ctx, f.conn); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// leaveGate lets others read much.
func (f *Feed) leaveGate() {
	if f.leave != nil {
		f.leave()
		f.leave = nil
	}
}

// receive hands a message to the reader. It runs on a goroutine of the subscription's own.
func (f *Feed) receive(m *nats.Msg) {
	select {
	case f.msgs <- m:
	case <-f.closed:
	}
}

// CaughtUp reports whether all entries have been read that were there when the server sent the
// latest one.
func (f *Feed) CaughtUp() bool { return f.pending == 0 }

// Next returns the next entry. The error is [ErrFeedEnded], or ctx.Err() when ctx ends.
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
			return Entry{}, ErrFeedEnded
		case <-f.gone:
			return Entry{}, ErrFeedEnded
		case <-ctx.Done():
			return Entry{}, ctx.Err()
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
		return ErrFeedEnded
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
		return Entry{}, ErrFeedEnded
	}
	if f.pending = about.NumPending; f.pending == 0 {
		f.leaveGate()
	}
	return Entry{m.Subject[f.prefix:], m.Data, isDeletion(m.Header), about.Sequence.Stream, about.Timestamp}, nil
}

// Close ends the feed. The server forgets it by itself.
func (f *Feed) Close() {
	f.leaveGate()
	f.silence.Stop()
	close(f.closed)
	_ = f.inbox.Unsubscribe() // or the connection is closed
}
