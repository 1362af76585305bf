// Package inbox receives the few answers to one question.
//
// nats.go's SubscribeSync makes room for 65,536 messages, half a megabyte, at each call. Who asks often, and
// most of all who asks again because all is slow already, cannot afford that. An [Inbox] has room for
// what is expected; the connection drops the rest, as it does with any slow consumer.
package inbox

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// Inbox is a subscription that one goroutine reads.
type Inbox struct {
	sub     *nats.Subscription
	arrived chan *nats.Msg
	closed  chan struct{}
}

// Subscribe opens an inbox in which so many messages can wait, one at least.
func Subscribe(conn *nats.Conn, subject string, room int) (*Inbox, error) {
	b := &Inbox{arrived: make(chan *nats.Msg, room), closed: make(chan struct{})}
	var err error
	if b.sub, err = conn.ChanSubscribe(subject, b.arrived); err != nil {
		return nil, err
	}
	closed := sync.OnceFunc(func() { close(b.closed) })
	b.sub.SetClosedHandler(func(string) { closed() })
	if !b.sub.IsValid() { // closed before there was somebody to tell
		closed()
	}
	return b, nil
}

// Next returns the next message. The error is [nats.ErrNoResponders] if the server says that nobody listens to
// the question, [nats.ErrBadSubscription] if nothing can come any more, for the subscription or the connection
// was closed, or that of the context. What has come is returned first.
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

// last returns what came before the subscription ended.
func (b *Inbox) last() (*nats.Msg, error) {
	select {
	case msg := <-b.arrived:
		return msg, check(msg)
	default:
		return nil, nats.ErrBadSubscription
	}
}

// check tells the server's own answer from those of others.
func check(msg *nats.Msg) error {
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		return nats.ErrNoResponders
	}
	return nil
}

// Unsubscribe ends the subscription.
func (b *Inbox) Unsubscribe() {
	_ = b.sub.Unsubscribe() // fails only if the connection is closed
}
