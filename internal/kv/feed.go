package kv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// feed reads the entries of a bucket in the order of their revisions, and then
// what is written after them. An entry that is written again before its turn is
// read in its new place only. A single goroutine may use a feed.
//
// Unlike nats.go's watcher it does not restart: a restarted feed could read
// another bucket unnoticed.
type feed struct {
	conn  *nats.Conn
	inbox *nats.Subscription
	msgs  chan *nats.Msg
	// Ends when the reader or the connection closes the subscription.
	open    context.Context
	end     context.CancelFunc
	silence *time.Timer

	prefix    int    // the length of a subject before the key
	delivered uint64 // messages so far
	pending   uint64 // entries still to come
	hasTurn   bool   // of big feeds
}

// An idle server sends heartbeats. A feed ends when nothing has come for
// maxSilence; it has no other time limit.
const (
	heartbeat  = 3 * time.Second
	maxSilence = 7 * time.Second
)

// buffered is the number of messages between the connection and the reader. The
// server's flow control holds back the rest.
const buffered = 1024

// A server drops a connection with more than 64 MB of pending data
// (max_pending), and its flow control lets each consumer send 32 MB ahead. So
// feeds with more than bigFeed entries take turns in a process. A waiting feed
// leaves its first messages unread, and flow control holds back the rest.
const bigFeed = 20_000

var turn = make(chan struct{}, 1)

// errFeedEnded means that a feed broke off, for instance because the connection
// was closed or the server fell silent.
var errFeedEnded = errors.New("feed of the bucket ended")

var errSilent = fmt.Errorf("%w: server is silent", errFeedEnded)

// openFeed begins to read a bucket. Errors: jetstream.ErrStreamNotFound.
func openFeed(ctx context.Context, js jetstream.JetStream, bucket string) (_ *feed, err error) {
	f := &feed{
		conn: js.Conn(), msgs: make(chan *nats.Msg, buffered), silence: time.NewTimer(maxSilence),
		prefix: len("$KV." + bucket + "."),
	}
	f.open, f.end = context.WithCancel(context.Background())
	if f.inbox, err = f.conn.Subscribe(f.conn.NewInbox(), f.receive); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	f.inbox.SetClosedHandler(func(string) { f.end() })
	if err = f.inbox.SetPendingLimits(-1, -1); err != nil {
		return nil, err
	}
	consumer, err := js.CreatePushConsumer(ctx, StreamName(bucket), jetstream.ConsumerConfig{
		Name: nuid.Next(), Replicas: 1, DeliverSubject: f.inbox.Subject, AckPolicy: jetstream.AckNonePolicy, MaxDeliver: 1,
		FlowControl: true, IdleHeartbeat: heartbeat, MemoryStorage: true,
	})
	if err != nil {
		return nil, err
	}
	if f.pending = consumer.CachedInfo().NumPending; f.pending > bigFeed {
		select {
		case turn <- struct{}{}:
			f.hasTurn = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return f, nil
}

// passTurn admits the next big feed.
func (f *feed) passTurn() {
	if f.hasTurn {
		f.hasTurn = false
		<-turn
	}
}

// receive passes a message to the reader. It runs on the subscription's
// goroutine.
func (f *feed) receive(m *nats.Msg) {
	select {
	case f.msgs <- m:
	case <-f.open.Done():
	}
}

// caughtUp reports whether all entries have been read that existed when the
// server sent the latest entry.
func (f *feed) caughtUp() bool { return f.pending == 0 }

// next returns the next entry. The error is errFeedEnded if the feed broke off,
// errSilent if nothing came for so long, or ctx.Err() when ctx ends.
func (f *feed) next(ctx context.Context, wait time.Duration) (Entry, error) {
	for {
		f.silence.Reset(wait)
		select {
		case m := <-f.msgs:
			// Only the server can set the subject of an acknowledgement. Any
			// header, also Status, can be an entry's.
			if about, err := m.Metadata(); err == nil {
				return f.decode(m, about)
			}
			if err := f.control(m); err != nil {
				return Entry{}, err
			}
		case <-f.silence.C:
			return Entry{}, errSilent
		case <-f.open.Done():
			return Entry{}, errFeedEnded
		case <-ctx.Done():
			return Entry{}, ctx.Err()
		}
	}
}

// control answers the server's flow control. It detects messages that were lost
// before a heartbeat, and entries that the server counted and does not send:
// they may have expired since, so only another feed can be complete.
func (f *feed) control(m *nats.Msg) error {
	last := m.Header.Get("Nats-Last-Consumer")
	if last != "" && last != strconv.FormatUint(f.delivered, 10) {
		return errFeedEnded
	}
	reply := m.Header.Get("Nats-Consumer-Stalled")
	if m.Reply != "" {
		reply = m.Reply
	}
	switch {
	case reply != "":
		return f.conn.Publish(reply, nil)
	case last != "" && f.pending > 0: // idle
		return errFeedEnded
	}
	return nil
}

func (f *feed) decode(m *nats.Msg, about *nats.MsgMetadata) (Entry, error) {
	if f.delivered++; about.Sequence.Consumer != f.delivered || len(m.Subject) <= f.prefix {
		return Entry{}, errFeedEnded
	}
	if f.pending = about.NumPending; f.pending == 0 {
		f.passTurn()
	}
	return Entry{m.Subject[f.prefix:], m.Data, isDeletion(m.Header), about.Sequence.Stream, about.Timestamp}, nil
}

// close ends the feed. The server removes its consumer after some time.
func (f *feed) close() {
	f.passTurn()
	f.end()
	_ = f.inbox.Unsubscribe() // or the connection is closed
}
