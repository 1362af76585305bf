package kv

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// Feed reads the entries of a bucket in the order of their revisions, and then
// every change. An entry that is written again before its turn is read in its
// new place only. A single goroutine may use a Feed.
//
// Unlike nats.go's watcher it does not restart: a restarted feed could read
// another bucket unnoticed.
type Feed struct {
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

// ErrFeedEnded means that a feed broke off, for instance because the connection
// was closed or the server fell silent.
var ErrFeedEnded = errors.New("feed of the bucket ended")

var errSilent = fmt.Errorf("%w: server is silent", ErrFeedEnded)

// List passes all entries of a bucket to visit, in the order of their
// revisions. It needs no leader: a lagging replica and concurrent writes may
// hide some. It lasts while entries arrive. Errors: those of [Follow] and
// [Feed.Next].
func List(ctx context.Context, js jetstream.JetStream, bucket string, visit func(Entry)) error {
	if ctx.Value(withoutConsumers{}) != nil {
		return listByRequests(ctx, js, bucket, func(e Entry) bool { visit(e); return true })
	}
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

// lagPatience bounds the wait of ListAll for entries that its server lacks, and
// the time that it reads what others write. lagLook is the pause between looks
// at the leader.
const (
	lagPatience = 5 * time.Second
	lagLook     = 250 * time.Millisecond
)

var errLags = errors.New("the replica lags behind its leader")

// ListAll passes all entries of a bucket to visit, also those that others write
// at the same time, until visit returns false. An entry that is written again
// may be passed twice, the later one last. Entries come from a replica, which
// may lag behind.
//
// A server's count of the entries to come leaves out one that is being written
// again. The list is complete once it has as many different keys as the leader
// then has entries, none of which is ever deleted without a marker.
func ListAll(ctx context.Context, js jetstream.JetStream, bucket string, visit func(Entry) bool) error {
	if ctx.Value(withoutConsumers{}) != nil {
		return listByRequests(ctx, js, bucket, visit)
	}
	feed, err := Follow(ctx, js, bucket)
	if err != nil {
		return err
	}
	defer feed.Close()
	seed, keys := maphash.MakeSeed(), make(map[uint64]struct{})
	latest, caughtUp := time.Now(), time.Time{}
	for {
		wait := maxSilence
		if feed.CaughtUp() {
			stream, err := js.Stream(ctx, StreamName(bucket))
			if err != nil || uint64(len(keys)) >= stream.CachedInfo().State.Msgs {
				return err
			}
			if caughtUp.IsZero() {
				caughtUp = time.Now()
			}
			switch {
			case time.Since(latest) > lagPatience:
				return errLags
			case time.Since(caughtUp) > lagPatience: // new keys are made all the time
				return nil
			}
			wait = lagLook
		}
		switch e, err := feed.next(ctx, wait); {
		case err == nil:
			latest = time.Now()
			keys[maphash.String(seed, e.Key)] = struct{}{}
			if !visit(e) {
				return nil
			}
		case wait == maxSilence, !errors.Is(err, errSilent):
			return err
		}
	}
}

// Latest returns the latest entry of each key, as [ListAll] finds them.
func Latest(ctx context.Context, js jetstream.JetStream, bucket string) (map[string]Entry, error) {
	all := make(map[string]Entry)
	err := ListAll(ctx, js, bucket, func(e Entry) bool {
		all[strings.Clone(e.Key)] = e
		return true
	})
	return all, err
}

// Values returns the values of a bucket by key, as [ListAll] finds them.
func Values(ctx context.Context, js jetstream.JetStream, bucket string) (map[string]string, error) {
	found, err := Latest(ctx, js, bucket)
	values := make(map[string]string, len(found))
	for key, e := range found {
		if !e.Deleted {
			values[key] = string(e.Value)
		}
	}
	return values, err
}

// Follow begins to read a bucket. Errors: jetstream.ErrStreamNotFound.
func Follow(ctx context.Context, js jetstream.JetStream, bucket string) (_ *Feed, err error) {
	f := &Feed{
		conn: js.Conn(), msgs: make(chan *nats.Msg, buffered), silence: time.NewTimer(maxSilence),
		prefix: len("$KV." + bucket + "."),
	}
	f.open, f.end = context.WithCancel(context.Background())
	if f.inbox, err = f.conn.Subscribe(f.conn.NewInbox(), f.receive); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
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
func (f *Feed) passTurn() {
	if f.hasTurn {
		f.hasTurn = false
		<-turn
	}
}

// receive passes a message to the reader. It runs on the subscription's
// goroutine.
func (f *Feed) receive(m *nats.Msg) {
	select {
	case f.msgs <- m:
	case <-f.open.Done():
	}
}

// CaughtUp reports whether all entries have been read that existed when the
// server sent the latest entry.
func (f *Feed) CaughtUp() bool { return f.pending == 0 }

// Next returns the next entry. The error is [ErrFeedEnded], or ctx.Err() when
// ctx ends.
func (f *Feed) Next(ctx context.Context) (Entry, error) { return f.next(ctx, maxSilence) }

// next is Next with a bound on the silence.
func (f *Feed) next(ctx context.Context, wait time.Duration) (Entry, error) {
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
			return Entry{}, ErrFeedEnded
		case <-ctx.Done():
			return Entry{}, ctx.Err()
		}
	}
}

// control answers the server's flow control. It detects messages that were lost
// before a heartbeat, and entries that the server counted and does not send:
// they may have expired since, so only another feed can be complete.
func (f *Feed) control(m *nats.Msg) error {
	last := m.Header.Get("Nats-Last-Consumer")
	if last != "" && last != strconv.FormatUint(f.delivered, 10) {
		return ErrFeedEnded
	}
	reply := m.Header.Get("Nats-Consumer-Stalled")
	if m.Reply != "" {
		reply = m.Reply
	}
	switch {
	case reply != "":
		return f.conn.Publish(reply, nil)
	case last != "" && f.pending > 0: // idle
		return ErrFeedEnded
	}
	return nil
}

func (f *Feed) decode(m *nats.Msg, about *nats.MsgMetadata) (Entry, error) {
	if f.delivered++; about.Sequence.Consumer != f.delivered || len(m.Subject) <= f.prefix {
		return Entry{}, ErrFeedEnded
	}
	if f.pending = about.NumPending; f.pending == 0 {
		f.passTurn()
	}
	return Entry{m.Subject[f.prefix:], m.Data, isDeletion(m.Header), about.Sequence.Stream, about.Timestamp}, nil
}

// Close ends the feed. The server removes its consumer after some time.
func (f *Feed) Close() {
	f.passTurn()
	f.end()
	_ = f.inbox.Unsubscribe() // or the connection is closed
}
