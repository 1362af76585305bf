package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// place is a micro service with one endpoint that is a member of a queue group. It has a
// connection of its own, which ends with it, because nothing else takes a subscription off a
// server for certain while what was delivered is still handled:
//
//   - Unsubscribe drops the requests that are on their way or wait in the process.
//   - Drain of a subscription, which is what micro does, handles them. But if the connection
//     is lost meanwhile, or was lost before, nats.go v1.55.0 subscribes again when it is back,
//     and then forgets the subscription without telling the server. The server keeps a member
//     of the group that drops requests, until the next reconnect. See docs/upstream.md.
//   - Drain of a connection handles them too, and from that moment on the connection never
//     reconnects: it ends, at the latest when it is lost. And a server keeps nothing of a
//     connection that has ended.
//
// So a member has left when its connection is closed, and there is no other way to leave.
type place struct {
	conn     *nats.Conn
	service  micro.Service
	endpoint *onceEnded
	line     *waitingLine
	leaving  chan struct{}
	ended    chan struct{}
}

// enterTimeout is how long the server may take to answer what enters a queue group.
const enterTimeout = 10 * time.Second

// openPlace registers a micro service with one endpoint, and returns when the server knows.
func (p processInfo) openPlace(service, endpoint, subject string, handler func(*waitingLine) micro.Handler) (member, error) {
	conn, err := dialLike(p.cfg.Requests)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	at := &place{conn: conn, line: new(waitingLine), leaving: make(chan struct{}), ended: make(chan struct{})}
	at.endpoint = &onceEnded{next: handler(at.line)}
	if err := at.register(p.serviceConfig(service), endpoint, subject); err != nil {
		conn.Close()
		return nil, err
	}
	go at.run()
	return at, nil
}

// register subscribes, and asks the server whether it has accepted that.
func (p *place) register(cfg micro.Config, endpoint, subject string) (err error) {
	if p.service, err = micro.AddService(p.conn, cfg); err != nil {
		return fmt.Errorf("register the service: %w", err)
	}
	limits := micro.WithEndpointPendingLimits(maxQueuedRequests, maxQueuedBytes)
	if err := p.service.AddEndpoint(endpoint, p.endpoint, micro.WithEndpointSubject(subject), limits); err != nil {
		return fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	if err := p.conn.FlushTimeout(enterTimeout); err != nil {
		return fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	if err := p.conn.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		return err
	}
	return nil
}

// stop begins to leave.
func (p *place) stop() { close(p.leaving) }

// left is closed when the connection is closed and no request is handled any more.
func (p *place) left() <-chan struct{} { return p.ended }

func (p *place) state() (up, late bool) { return p.conn.IsConnected(), p.line.late() }

// run ends the connection when the place is left, and with it all that belongs to it.
func (p *place) run() {
	defer close(p.ended)
	closed := p.conn.StatusChanged(nats.CLOSED)
	marking, endMarking := context.WithCancel(context.Background())
	var line sync.WaitGroup
	line.Go(func() { p.line.run(marking, p.conn) })
	select {
	case <-p.leaving:
		p.handleDelivered(closed)
	case <-closed: // it gave up
	}
	p.conn.Close()
	p.endpoint.end()
	endMarking()
	line.Wait()
}

// handleDelivered takes the service out of the group and returns when what was delivered has
// been handled and answered, or the connection is lost, or that takes very long.
func (p *place) handleDelivered(closed <-chan nats.Status) {
	if p.conn.Drain() != nil {
		return // the connection was lost, and is closed now
	}
	_ = p.service.Stop() // Drain does the same, but later; the flush must not overtake it
	ctx, cancel := context.WithTimeout(context.Background(), markLost)
	defer cancel()
	handled := make(chan struct{})
	if p.conn.FlushWithContext(ctx) != nil || p.conn.Barrier(func() { close(handled) }) != nil {
		return
	}
	select {
	case <-handled:
		_ = p.conn.FlushWithContext(ctx) // the replies; fails only with the connection
	case <-closed:
	case <-ctx.Done():
	}
}

// dialLike makes a connection like another one, to the same server if it is there. It names
// only the servers that were configured. Of the others nats.go is told by the server, and only
// of those it remembers the name that their certificates bear, and forgets them when they leave
// the cluster. So, to get to a server that was discovered, it dials that one instead of a
// configured one, whose name it checks the certificate against.
func dialLike(conn *nats.Conn) (*nats.Conn, error) {
	options := conn.Opts
	current, err := url.Parse(conn.ConnectedUrl())
	if err != nil || current.Host == "" {
		return options.Connect() // it has lost its server
	}
	servers := configuredServers(conn)
	first := slices.IndexFunc(servers, func(s *url.URL) bool { return s.Host == current.Host })
	if first < 0 {
		state, noTLS := conn.TLSConnectionState()
		first = slices.IndexFunc(servers, func(s *url.URL) bool { return noTLS != nil || s.Hostname() == state.ServerName })
		options.CustomDialer = newDetour(current.Host, &options)
	}
	if first < 0 { // its certificate bears its own name
		servers, first = append(servers, current), len(servers)
	}
	options.Url, options.Servers = servers[first].String(), nil
	for _, s := range slices.Delete(servers, first, first+1) {
		options.Servers = append(options.Servers, s.String())
	}
	return options.Connect()
}

// isAway reports whether an error says that a server has not answered in time, or is not there.
func isAway(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout() || errors.Is(err, io.EOF) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoServers)
}

// configuredServers returns the servers of a connection without those that it was told of.
func configuredServers(conn *nats.Conn) (servers []*url.URL) {
	discovered := conn.DiscoveredServers()
	for _, s := range conn.ServerPool() {
		if !slices.Contains(discovered, s.URL.Scheme+"://"+s.URL.Host) {
			servers = append(servers, s.URL)
		}
	}
	return servers
}

// detour is a dialer that goes to one server first, whichever it is asked for.
type detour struct {
	nats.CustomDialer
	address string
	taken   atomic.Bool
}

// newDetour makes a detour before what the options dial with.
func newDetour(address string, options *nats.Options) *detour {
	if options.CustomDialer != nil {
		return &detour{CustomDialer: options.CustomDialer, address: address}
	}
	return &detour{CustomDialer: options.Dialer, address: address}
}

// Dial is part of nats.CustomDialer.
func (d *detour) Dial(network, address string) (net.Conn, error) {
	if !d.taken.Swap(true) {
		if conn, err := d.CustomDialer.Dial(network, d.address); err == nil {
			return conn, nil
		}
	}
	return d.CustomDialer.Dial(network, address)
}

// SkipTLSHandshake is what nats.go asks a dialer that may do TLS by itself.
func (d *detour) SkipTLSHandshake() bool {
	s, ok := d.CustomDialer.(interface{ SkipTLSHandshake() bool })
	return ok && s.SkipTLSHandshake()
}

// onceEnded is a handler that handles nothing any more once it was ended: when a connection
// is closed one request may be in the middle of being handled.
type onceEnded struct {
	mu    sync.Mutex
	ended bool
	next  micro.Handler
}

// Handle is the micro.Handler.
func (h *onceEnded) Handle(req micro.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.next.Handle(req)
	}
}

// end returns when nothing is handled.
func (h *onceEnded) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
}
