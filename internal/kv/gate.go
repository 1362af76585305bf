package kv

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// A server drops a connection that it has 64 MB for (max_pending), and its flow control lets each
// consumer send 32 MB ahead. So of those who read much on one connection, one reads at a time. The
// others leave their first messages unread, and flow control holds back the rest.

// much is how many entries take their turn to be read.
const much = 20_000

// gates has a gate for each connection on which somebody reads much.
var gates = struct {
	sync.Mutex
	of map[*nats.Conn]*gate
}{of: make(map[*nats.Conn]*gate)}

type gate struct {
	inside chan struct{} // has room for one
	users  int           // inside and before it
}

// enter waits until nobody else reads much on the connection.
func enter(ctx context.Context, conn *nats.Conn) (leave func(), err error) {
	gates.Lock()
	g := gates.of[conn]
	if g == nil {
		g = &gate{inside: make(chan struct{}, 1)}
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
