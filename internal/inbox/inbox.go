// Package inbox receives the few answers to a request.
//
// nats.go's SubscribeSync allocates a buffer for 65,536 messages, half a
// megabyte, per call. Frequent requests, and above all retries while everything
// is slow, cannot afford that. An [Inbox] has room for the expected answers;
// the connection drops the rest, as for any slow consumer.
package inbox

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
)

// Inbox receives messages that a single goroutine reads.
type Inbox struct {
	// Subject is where answers go, and Pattern the subject of the subscription.
	Subject, Pattern string

	arrived chan *nats.Msg
	life    context.Context

	// One of these ends it.
	sub    *nats.Subscription
	shared *shared
}

// Subscribe opens an inbox with a subscription of its own, and with room for so
// many messages, at least one.
func Subscribe(conn *nats.Conn, subject string, room int) (*Inbox, error) {
	arrived := make(chan *nats.Msg, room)
	sub, err := conn.ChanSubscribe(subject, arrived)
	if err != nil {
		return nil, err
	}
	life, _ := lifeOf(sub, func() {})
	return &Inbox{Subject: subject, Pattern: subject, arrived: arrived, life: life, sub: sub}, nil
}

// lifeOf returns a context that ends with the subscription, after a call of
// then. Its cause is [nats.ErrBadSubscription], unless the returned function
// ends it before, with another.
func lifeOf(sub *nats.Subscription, then func()) (context.Context, context.CancelCauseFunc) {
	life, end := context.WithCancelCause(context.Background())
	closed := func() {
		then()
		end(nats.ErrBadSubscription)
	}
	sub.SetClosedHandler(func(string) { closed() })
	// closed before the handler was set
	if !sub.IsValid() {
		closed()
	}
	return life, end
}

// Next returns the next message. Messages that have arrived are returned before
// any error. The error is [nats.ErrNoResponders] if the server reports that no
// process subscribes to the subject; [nats.ErrBadSubscription] if the
// subscription or the connection was closed, so no message can arrive; that of
// [Inbox.Drop]; or that of the context.
func (b *Inbox) Next(ctx context.Context) (*nats.Msg, error) { return b.NextUntil(ctx, nil) }

// NextUntil is Next, which also ends with the time that the channel sends; the
// error is then [nats.ErrTimeout].
func (b *Inbox) NextUntil(ctx context.Context, end <-chan time.Time) (*nats.Msg, error) {
	select {
	case msg := <-b.arrived:
		return msg, check(msg)
	default:
	}
	select {
	case msg := <-b.arrived:
		return msg, check(msg)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-end:
		return nil, nats.ErrTimeout
	case <-b.life.Done():
		return b.last()
	}
}

// last returns messages that arrived before the subscription ended.
func (b *Inbox) last() (*nats.Msg, error) {
	select {
	case msg := <-b.arrived:
		return msg, check(msg)
	default:
		return nil, context.Cause(b.life)
	}
}

// check distinguishes the server's own answer from other answers.
func check(msg *nats.Msg) error {
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		return nats.ErrNoResponders
	}
	return nil
}

// Unsubscribe ends the inbox. Later messages are dropped.
func (b *Inbox) Unsubscribe() {
	if b.shared != nil {
		b.shared.leave(b.Subject)
		return
	}
	_ = b.sub.Unsubscribe() // fails only if the connection is closed
}

// Overflowed reports whether messages were dropped because there was no room for
// them. The inbox has its own subscription.
func (b *Inbox) Overflowed() bool {
	n, _ := b.sub.Dropped() // fails only if the subscription is closed
	return n > 0
}

// Drop ends the subscription that the inbox shares, and all inboxes of it, with
// the error by which the server refused it. The connection's next inbox
// subscribes again, since rights may change.
func (b *Inbox) Drop(refusal error) { b.shared.drop(refusal) }

// Retire makes the connection's next inbox subscribe again if the server may have
// refused the subscription that this one shares: the server reports that, like
// other errors, as the connection's last error, which the next error replaces.
// It reports whether it did so.
func (b *Inbox) Retire() bool { return b.shared.retire() }
