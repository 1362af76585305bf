package natstest

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/freeport"
)

// readyWithin is how long a server may take to accept connections: milliseconds
// as a rule, but test hosts are small and shared.
const readyWithin = 2 * time.Minute

// Node is a NATS server with JetStream on 127.0.0.1. Its methods may be
// called from any goroutine, except Restart.
type Node struct {
	t    testing.TB
	opts *server.Options // as each start uses them

	mu      sync.Mutex
	running *server.Server // nil while stopped
	conns   []*nats.Conn   // of tests, made by Connect
}

// Start runs a server on a port of the test, with its data in a folder of the
// test, and stops it when the test ends. The functions may change the options;
// a port other than -1 is kept. It fails the test if the server does not start.
func Start(t testing.TB, opts ...func(*server.Options)) *Node {
	t.Helper()
	o := &server.Options{
		Host:               "127.0.0.1",
		Port:               server.RANDOM_PORT,
		JetStream:          true,
		JetStreamMaxMemory: 256 << 20,
		JetStreamMaxStore:  1 << 30,
		StoreDir:           t.TempDir(),
		NoSigs:             true,
		NoLog:              !testing.Verbose(),
	}
	for _, opt := range opts {
		opt(o)
	}
	if o.Port == server.RANDOM_PORT {
		o.Port = freeport.Get(t) // still free after a stop
	}
	s := &Node{t: t, opts: o}
	t.Cleanup(s.Stop)
	s.Restart()
	return s
}

// URL is where clients connect; a restart does not change it.
func (s *Node) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return "nats://" + net.JoinHostPort(s.opts.Host, strconv.Itoa(s.opts.Port))
}

// Connect returns a connection that outlives restarts of the server and is
// closed when the test ends.
func (s *Node) Connect(t testing.TB, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc := connect(t, []string{s.URL()}, opts)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, nc)
	return nc
}

// Running is the server, for tests that query it directly, and nil while it is
// stopped.
func (s *Node) Running() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// Stop shuts the server down and returns when it is gone. Stopping a server
// that is stopped does nothing.
func (s *Node) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
	s.running.Shutdown()
	s.running.WaitForShutdown()
	s.running = nil
}

// Restart stops the server if it runs, and starts it again on the same port and
// the same data. It returns when the server answers all connections that
// Connect made: a request that a client sends before it notices the stop is
// lost, and waits for its whole timeout. It fails the test if the server does
// not start: call it from the test's own goroutine.
func (s *Node) Restart() {
	s.t.Helper()
	s.Stop()

	var last string
	up := poll(Patience, func() bool {
		last = s.launch()
		return last == ""
	})
	if !up {
		s.t.Fatalf("nats-server on %s: %s", s.URL(), last)
	}
	s.mu.Lock()
	conns := s.conns
	s.mu.Unlock()
	for _, nc := range conns {
		Eventually(s.t, "the connection "+nc.Opts.Name+" is back", func() bool {
			return nc.IsClosed() || nc.FlushTimeout(time.Second) == nil
		})
	}
}

// launch tries once to start the server. Another process may hold the port of a
// stopped server for a moment, hence the retries above.
func (s *Node) launch() string {
	s.mu.Lock()
	defer s.mu.Unlock()

	srv, err := server.NewServer(s.opts.Clone()) // the server writes to its options
	if err != nil {
		return err.Error()
	}
	log := &logger{quiet: s.opts.NoLog}
	srv.SetLogger(log, false, false)
	srv.Start()
	if !srv.ReadyForConnections(readyWithin / 4) {
		srv.Shutdown()
		srv.WaitForShutdown()
		return "not ready for connections: " + log.trouble()
	}
	s.opts.Port = srv.Addr().(*net.TCPAddr).Port
	s.running = srv
	return ""
}

// connect dials any of the URLs, and reconnects for ever: the test decides when
// a server comes back.
func connect(t testing.TB, urls []string, opts []nats.Option) *nats.Conn {
	t.Helper()
	all := append([]nats.Option{
		nats.Name(t.Name()),
		nats.MaxReconnects(-1),
		nats.Timeout(30 * time.Second), // to dial: a busy machine takes longer than the default of 2 s
		nats.ReconnectWait(20 * time.Millisecond),
		nats.ReconnectJitter(10*time.Millisecond, 10*time.Millisecond),
	}, opts...)
	nc, err := nats.Connect(strings.Join(urls, ","), all...)
	if err != nil {
		t.Fatalf("connect to %v: %v", urls, err)
	}
	t.Cleanup(nc.Close)
	return nc
}
