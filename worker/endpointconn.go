package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/worker/internal/answer"
)

// endpointConn is a micro service with one endpoint that is a member of a queue
// group. It has a connection of its own, because nothing else removes a
// subscription from a server for certain while delivered requests are still
// handled:
//
//   - Unsubscribe drops the requests that are in flight or queued in the
//     process.
//   - Drain of a subscription, which is what micro does, handles them. But if
//     the connection is lost meanwhile, or was lost before, nats.go v1.55.0
//     resubscribes at the reconnect, and then forgets the subscription without
//     an UNSUB. The server keeps a member of the group that drops requests,
//     until the next reconnect. See docs/upstream.md.
//   - Drain of a connection handles them too, and from then on the connection
//     never reconnects. A server keeps nothing of a connection that has ended.
//
// So a member has left when its connection is closed, and there is no other way
// to leave.
type endpointConn struct {
	conn     *nats.Conn
	service  micro.Service
	endpoint answer.Endpoint
	delay    *queueDelay
	leaving  chan struct{}
	ended    chan struct{}
}

// enterTimeout is how long the server may take to confirm a subscription.
const enterTimeout = 10 * time.Second

// openEndpoint registers a micro service on a new connection like requests, and
// returns when the server has confirmed it.
func openEndpoint(requests *nats.Conn, service micro.Config, name, subject string, delay *queueDelay, endpoint answer.Endpoint) (*endpointConn, error) {
	conn, err := dialLike(requests)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	c := &endpointConn{conn: conn, endpoint: endpoint, delay: delay, leaving: make(chan struct{}), ended: make(chan struct{})}
	if c.service, err = registerService(conn, service, name, subject, endpoint); err != nil {
		conn.Close()
		return nil, err
	}
	go c.run()
	return c, nil
}

// The limits of nats.go's queue for an endpoint. A request beyond them is lost
// and logged. Requests get an error long before so many are queued.
const (
	maxQueuedRequests = 1_000_000
	maxQueuedBytes    = 256 << 20
)

// registerService subscribes, and has the server confirm it.
func registerService(conn *nats.Conn, cfg micro.Config, name, subject string, endpoint micro.Handler) (micro.Service, error) {
	before := conn.LastError()
	service, err := micro.AddService(conn, cfg)
	if err != nil {
		return nil, fmt.Errorf("register the service: %w", err)
	}
	limits := micro.WithEndpointPendingLimits(maxQueuedRequests, maxQueuedBytes)
	err = service.AddEndpoint(name, endpoint, micro.WithEndpointSubject(subject), limits)
	if err == nil {
		err = conn.FlushTimeout(enterTimeout)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to %s: %w", subject, err), unlessClosed(service.Stop()))
	}
	if last := conn.LastError(); !errors.Is(before, last) && errors.Is(last, nats.ErrPermissionViolation) {
		return nil, errors.Join(last, unlessClosed(service.Stop()))
	}
	return service, nil
}

// stop begins to leave.
func (c *endpointConn) stop() { close(c.leaving) }

// left is closed when the connection is closed and no request is handled any
// more.
func (c *endpointConn) left() <-chan struct{} { return c.ended }

func (c *endpointConn) state() (up, late bool) { return c.conn.IsConnected(), c.delay.isLate() }

// run ends the connection when stop is called, and with it all that belongs to
// it.
func (c *endpointConn) run() {
	defer close(c.ended)
	closed := c.conn.StatusChanged(nats.CLOSED)
	probing, endProbing := context.WithCancel(context.Background())
	var probes sync.WaitGroup
	probes.Go(func() { c.delay.run(probing, c.conn) })
	select {
	case <-c.leaving:
		c.handleDelivered(closed)
	case <-closed: // it gave up
	}
	c.conn.Close()
	c.endpoint.End()
	endProbing()
	probes.Wait()
}

// unlessClosed drops the error of a connection that is closed: with it,
// whatever was to be ended has ended.
func unlessClosed(err error) error {
	if errors.Is(err, nats.ErrConnectionClosed) {
		return nil
	}
	return err
}

// handleDelivered takes the service out of the group and returns when what was
// delivered has been handled and answered, or the connection is lost, or that
// takes very long.
func (c *endpointConn) handleDelivered(closed <-chan nats.Status) {
	if c.conn.Drain() != nil {
		return // the connection was lost, and is closed now
	}
	_ = c.service.Stop() // Drain does the same, but later; the flush must not overtake it
	ctx, cancel := context.WithTimeout(context.Background(), probeLost)
	defer cancel()
	handled := make(chan struct{})
	if c.conn.FlushWithContext(ctx) != nil || c.conn.Barrier(func() { close(handled) }) != nil {
		return
	}
	select {
	case <-handled:
		_ = c.conn.FlushWithContext(ctx) // the replies; fails only with the connection
	case <-closed:
	case <-ctx.Done():
	}
}
