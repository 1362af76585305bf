package kv

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// A server drops a connection with more than 64 MB of pending data
// (max_pending), and its flow control lets each consumer send 32 MB ahead. So
// only one big feed of a connection reads at a time. The others leave their
// first messages unread, and flow control holds back the rest.

// bigFeed is the number of entries from which a feed is big.
const bigFeed = 20_000

// gates has a gate for each connection with a big feed.
var gates = struct {
	sync.Mutex
	of map[*nats.Conn]*feedGate
}{of: make(map[*nats.Conn]*feedGate)}

type feedGate struct {
	inside chan struct{} // has capacity 1
	users  int           // inside and waiting
}

// enter waits until no other big feed reads on the connection.
func enter(ctx context.Context, conn *nats.Conn) (leave func(), err error) {
	gates.Lock()
	g := gates.of[conn]
	if g == nil {
		g = &feedGate{inside: make(chan struct{}, 1)}
		gates.of[conn] = g
	}
	g.users++
	gates.Unlock()
	done := func() {
		gates.Lock()
		defer gates.Unlock()
		if g.users--; g.users == 0 {
			delete(gates.of, conn)
		}
	}
	select {
	case g.inside <- struct{}{}:
		return func() { <-g.inside; done() }, nil
	case <-ctx.Done():
		done()
		return nil, ctx.Err()
	}
}
