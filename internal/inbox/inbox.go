// Package inbox receives the few answers to a request.
//
// nats.go's SubscribeSync allocates a buffer for 65,536 messages, half a
// megabyte, per call. Frequent requests, and above all retries while everything
// is slow, cannot afford that. An [Inbox] has room for the expected answers;
// the connection drops the rest, as for any slow consumer.
package inbox

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// Inbox receives messages that a single goroutine reads.
type Inbox struct {
	// Subject is where answers go, and Pattern the subject of the subscription.
	Subject, Pattern string

	arrived chan *nats.Msg
	closed  <-chan struct{}
	end     func()
}

// Subscribe opens an inbox with a subscription of its own, and with room for so
// many messages, at least one.
func Subscribe(conn *nats.Conn, subject string, room int) (*Inbox, error) {
	arrived := make(chan *nats.Msg, room)
	sub, err := conn.ChanSubscribe(subject, arrived)
	if err != nil {
		return nil, err
	}
	// Unsubscribe fails only if the connection is closed.
	return &Inbox{subject, subject, arrived, closedBy(sub), func() { _ = sub.Unsubscribe() }}, nil
}

// closedBy returns a channel that is closed with the subscription.
func closedBy(sub *nats.Subscription) <-chan struct{} {
	c := make(chan struct{})
	closed := sync.OnceFunc(func() { close(c) })
	sub.SetClosedHandler(func(string) { closed() })
	// closed before the handler was set
	if !sub.IsValid() {
		closed()
	}
	return c
}

// Next returns the next message. Messages that have arrived are returned before
// any error. The error is [nats.ErrNoResponders] if the server reports that no
// process subscribes to the subject; [nats.ErrBadSubscription] if the
// subscription or the connection was closed, so no message can arrive; or that
// of the context.
func (b *Inbox) Next(ctx context.Context) (*nats.Msg, error) {
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
	case <-b.closed:
		return b.last()
	}
}

// last returns messages that arrived before the subscription ended.
func (b *Inbox) last() (*nats.Msg, error) {
	select {
	case msg := <-b.arrived:
		return msg, check(msg)
	default:
		return nil, nats.ErrBadSubscription
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
func (b *Inbox) Unsubscribe() { b.end() }
