package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/worker/internal/answer"
	"github.com/idworker/idworker/worker/internal/decision"
)

// endpointConn is a micro service with one endpoint in a queue group. It has
// its own connection, because closing it is the only reliable way to leave the
// group and still handle delivered requests:
//
//   - Unsubscribe drops the requests that are in flight or queued in the process.
//   - Drain of a subscription, which micro uses, handles them. But if the
//     connection is lost before or during the drain, nats.go v1.55.0 resubscribes
//     at the reconnect, and then drops the subscription without an UNSUB. Until
//     the next reconnect, the server keeps a group member that drops requests.
//   - Drain of a connection handles them too, and the connection never reconnects
//     afterwards. A server keeps nothing of a closed connection.
type endpointConn struct {
	conn     *nats.Conn
	service  micro.Service
	endpoint answer.Endpoint
	delay    *queueDelay
	leaving  chan struct{}
	ended    chan struct{}
}

// enterTimeout bounds the server's confirmation of a subscription.
const enterTimeout = 10 * time.Second

// openEndpoint registers a micro service on a new connection like requests. It
// returns when the server has confirmed the subscription.
func openEndpoint(requests *nats.Conn, service micro.Config, info endpointInfo, delay *queueDelay, endpoint answer.Endpoint) (*endpointConn, error) {
	conn, err := dialLike(requests, delay.gate)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if delay.gate != nil {
		delay.gate.Over(conn)
	}
	c := &endpointConn{conn: conn, endpoint: endpoint, delay: delay, leaving: make(chan struct{}), ended: make(chan struct{})}
	if c.service, err = registerService(conn, service, info, endpoint); err != nil {
		conn.Close()
		return nil, err
	}
	go c.run()
	return c, nil
}

// The limits of nats.go's queue for an endpoint. nats.go drops and logs
// requests beyond them. Requests are refused long before so many are queued.
const (
	maxQueuedRequests = 1_000_000
	maxQueuedBytes    = 256 << 20
)

// endpointInfo is what INFO reports of an endpoint. The last three are metadata,
// for people: what to send, what comes back, and the page that documents it.
type endpointInfo struct{ name, subject, request, reply, page string }

// protocolPage is the page of the wire contract.
const protocolPage = "https://github.com/idworker/idworker/blob/main/docs/protocol.md"

// registerService subscribes, and waits for the server's confirmation.
func registerService(conn *nats.Conn, cfg micro.Config, info endpointInfo, endpoint micro.Handler) (micro.Service, error) {
	service, err := micro.AddService(conn, cfg)
	if err != nil {
		return nil, fmt.Errorf("register the service: %w", err)
	}
	limits := micro.WithEndpointPendingLimits(maxQueuedRequests, maxQueuedBytes)
	described := micro.WithEndpointMetadata(map[string]string{"request": info.request, "reply": info.reply, "page": info.page})
	err = service.AddEndpoint(info.name, endpoint, micro.WithEndpointSubject(info.subject), limits, described)
	if err == nil {
		err = conn.FlushTimeout(enterTimeout)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to %s: %w", info.subject, err), unlessClosed(service.Stop()))
	}
	// Replies to callers may be denied too, by their own mistake.
	if v, ok := rights.ViolationOf(conn.LastError()); ok && v.Subscribe {
		return nil, errors.Join(conn.LastError(), unlessClosed(service.Stop()))
	}
	return service, nil
}

// stop begins to leave.
func (c *endpointConn) stop() { close(c.leaving) }

// left is closed when the connection is closed and no request is being handled.
func (c *endpointConn) left() <-chan struct{} { return c.ended }

func (c *endpointConn) state() (up, late bool) { return c.conn.IsConnected(), c.delay.late.Load() }

// run closes the connection when stop is called, and ends everything that
// belongs to it.
func (c *endpointConn) run() {
	defer close(c.ended)
	closed := c.conn.StatusChanged(nats.CLOSED)
	probing, endProbing := context.WithCancel(context.Background())
	var probes sync.WaitGroup
	probes.Go(func() { c.delay.run(probing, c.conn) })
	select {
	case <-c.leaving:
		c.handleDelivered(closed)
	case <-closed: // nats.go gave up
	}
	c.conn.Close()
	c.endpoint.End()
	endProbing()
	probes.Wait()
}

// unlessClosed drops the error of a closed connection: everything on it has
// ended.
func unlessClosed(err error) error {
	if errors.Is(err, nats.ErrConnectionClosed) {
		return nil
	}
	return err
}

// handleDelivered leaves the group. It returns when delivered requests are
// handled and answered, the connection is lost, the server is silent, or
// probeLost has passed.
func (c *endpointConn) handleDelivered(closed <-chan nats.Status) {
	if c.conn.Drain() != nil {
		return // the connection was lost, and is closed now
	}
	// Drain stops it too, but later, and the flush must not overtake that.
	_ = c.service.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), probeLost)
	defer cancel()
	handled := make(chan struct{})
	if c.flush(ctx) != nil || c.conn.Barrier(func() { close(handled) }) != nil {
		return
	}
	select {
	case <-handled:
		// The replies. It fails only with the connection or the server.
		_ = c.flush(ctx)
	case <-closed:
	case <-ctx.Done():
	}
}

// flush returns when the server has received everything sent, or is silent.
func (c *endpointConn) flush(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		c.delay.awaitSilence(ctx)
		cancel()
	})
	defer watch.Wait()
	defer cancel()
	return c.conn.FlushWithContext(ctx)
}

// queueDelay reports whether requests have queued too long before being
// handled: in the server's buffer for this connection, in the network, or in
// this process.
//
// NATS does not timestamp requests, so a probe follows them every probeEvery: a
// PING, whose PONG trails everything the server has buffered, then a Barrier,
// which trails everything nats.go has queued. The age of the oldest outstanding
// probe is a lower bound on the delay. If nothing has arrived since it was
// sent, the server is frozen or the network is down: no other worker could
// serve these requests sooner, so the delay does not count.
type queueDelay struct {
	// After that time, callers may be gone, and their IDs would be wasted.
	limit time.Duration
	// Without a PONG or a message for that time, the server is lost.
	lost time.Duration
	// Requests have queued for longer than limit. Read once per request.
	late atomic.Bool
	gate *decision.Gate // of the requests; nil if they need none

	mu      sync.Mutex
	probes  []time.Time // send times of outstanding probes, in order
	msgs    uint64      // messages received on the connection
	arrival time.Time   // when the latest arrival was detected
}

const (
	probeEvery = 50 * time.Millisecond
	mostProbes = 100              // outstanding; more would add little
	probeLost  = 30 * time.Second // the PONG is not expected any more
)

// run sends probes until ctx ends, and returns when no probe is being sent.
func (d *queueDelay) run(ctx context.Context, conn *nats.Conn) {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	var sent sync.WaitGroup
	defer sent.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if !conn.IsConnected() {
				// No request waits on a lost connection.
				d.removeThrough(time.Now())
				continue
			}
			if probe, ok := d.add(conn.Stats().InMsgs); ok {
				sent.Go(func() { d.send(ctx, conn, probe) })
			}
		}
	}
}

// send sends a probe and waits for its arrival. A lost probe counts as arrived:
// the probes behind it measure the same delay.
func (d *queueDelay) send(ctx context.Context, conn *nats.Conn, probe time.Time) {
	ctx, cancel := context.WithTimeout(ctx, probeLost)
	defer cancel()
	if conn.FlushWithContext(ctx) != nil {
		d.removeThrough(probe)
		return
	}
	d.notePong(probe)
	if conn.Barrier(func() { d.removeThrough(probe) }) != nil {
		d.removeThrough(probe)
	}
}

// notePong records the server's answer to a probe.
func (d *queueDelay) notePong(probe time.Time) {
	if d.gate != nil {
		d.gate.Touch(probe)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arrival = time.Now()
	d.update()
}

// awaitSilence returns when nothing has arrived for the time lost, or ctx ends.
func (d *queueDelay) awaitSilence(ctx context.Context) {
	began := time.Now()
	silent := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return time.Since(began) > d.lost && time.Since(d.arrival) > d.lost
	}
	for ctx.Err() == nil && !silent() {
		pause.For(ctx, probeEvery)
	}
}

// add adds a probe, unless many are outstanding. msgs is the number of messages
// received so far.
func (d *queueDelay) add(msgs uint64) (probe time.Time, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	probe = time.Now()
	if msgs != d.msgs {
		d.msgs, d.arrival = msgs, probe
	}
	if ok = len(d.probes) < mostProbes; ok {
		d.probes = append(d.probes, probe)
	}
	d.update()
	return probe, ok
}

// removeThrough removes an arrived probe, and all earlier ones.
func (d *queueDelay) removeThrough(probe time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.probes = slices.DeleteFunc(d.probes, func(p time.Time) bool { return !p.After(probe) })
	d.update()
}

// update compares the age of the oldest probe with the limit. It needs mu.
func (d *queueDelay) update() {
	d.late.Store(len(d.probes) > 0 && time.Since(d.probes[0]) > d.limit && d.arrival.After(d.probes[0]))
}
