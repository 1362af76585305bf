package worker

import (
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/worker/internal/decision"
)

// dialLike makes a connection like another, to the same server if possible.
//
// It passes on only the configured servers, and lets nats.go rediscover the
// others: nats.go checks the certificates of discovered servers against the
// configured name, and drops servers that leave the cluster. To reach a
// discovered server, it passes a configured server with the right name, and a
// [detour] dials the discovered server instead.
//
// Before each of its connections is used, it closes the gate, if there is one.
func dialLike(conn *nats.Conn, gate *decision.Gate) (*nats.Conn, error) {
	options := conn.Opts
	if gate != nil {
		options.CustomDialer = closing{dialerOf(&options), gate}
	}
	current, err := url.Parse(conn.ConnectedUrl())
	if err != nil || current.Host == "" {
		return options.Connect() // the connection was lost
	}
	servers := configuredServers(conn)
	first := slices.IndexFunc(servers, func(s *url.URL) bool { return s.Host == current.Host })
	if first < 0 {
		state, noTLS := conn.TLSConnectionState()
		first = slices.IndexFunc(servers, func(s *url.URL) bool { return noTLS != nil || s.Hostname() == state.ServerName })
		options.CustomDialer = newDetour(current.Host, &options)
	}
	if first < 0 { // its certificate has its own name
		servers, first = append(servers, current), len(servers)
	}
	options.Url, options.Servers = servers[first].String(), nil
	for _, s := range slices.Delete(servers, first, first+1) {
		options.Servers = append(options.Servers, s.String())
	}
	return options.Connect()
}

// isAway reports whether an error means that a server is gone or has not
// answered in time.
func isAway(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout() || errors.Is(err, io.EOF) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoServers)
}

// configuredServers returns the servers of a connection, except discovered
// ones.
func configuredServers(conn *nats.Conn) (servers []*url.URL) {
	discovered := conn.DiscoveredServers()
	for _, s := range conn.ServerPool() {
		if !slices.Contains(discovered, s.URL.Scheme+"://"+s.URL.Host) {
			servers = append(servers, s.URL)
		}
	}
	return servers
}

// detour is a dialer whose first connection goes to a fixed address.
type detour struct {
	nats.CustomDialer
	address string
	taken   atomic.Bool
}

// newDetour wraps the dialer of the options in a detour.
func newDetour(address string, options *nats.Options) *detour {
	return &detour{CustomDialer: dialerOf(options), address: address}
}

// dialerOf returns the dialer of the options.
func dialerOf(options *nats.Options) nats.CustomDialer {
	if options.CustomDialer != nil {
		return options.CustomDialer
	}
	return options.Dialer
}

// closing is a dialer that closes a gate before a connection is used: a decision
// may have been made while there was none.
type closing struct {
	nats.CustomDialer
	gate *decision.Gate
}

// Dial is part of nats.CustomDialer.
func (c closing) Dial(network, address string) (net.Conn, error) {
	conn, err := c.CustomDialer.Dial(network, address)
	if err == nil {
		c.gate.Close()
	}
	return conn, err
}

// SkipTLSHandshake reports to nats.go whether the wrapped dialer does TLS.
func (c closing) SkipTLSHandshake() bool { return skipsTLS(c.CustomDialer) }

// Dial is part of nats.CustomDialer.
func (d *detour) Dial(network, address string) (net.Conn, error) {
	if !d.taken.Swap(true) {
		if conn, err := d.CustomDialer.Dial(network, d.address); err == nil {
			return conn, nil
		}
	}
	return d.CustomDialer.Dial(network, address)
}

// SkipTLSHandshake reports to nats.go whether the wrapped dialer does TLS.
func (d *detour) SkipTLSHandshake() bool { return skipsTLS(d.CustomDialer) }

func skipsTLS(dialer nats.CustomDialer) bool {
	s, ok := dialer.(interface{ SkipTLSHandshake() bool })
	return ok && s.SkipTLSHandshake()
}
