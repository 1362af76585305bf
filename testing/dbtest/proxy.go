package dbtest

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/freeport"
)

// Proxy stands between a database and its clients, and disturbs their
// connections. Its settings apply to all connections, existing ones included.
//
// It is not toxiproxy, which would bring a dozen modules (an HTTP API, metrics,
// logging) for three functions, and cuts a connection after a number of bytes,
// not between a statement and its answer.
type Proxy struct {
	t    testing.TB
	port int // where it listens

	delay     atomic.Int64 // time.Duration
	statement atomic.Pointer[[]byte]
	cuts      atomic.Int64

	mu       sync.Mutex
	target   string       // the server's address
	listener net.Listener // nil while connections are refused
	conns    map[net.Conn]bool
	wg       sync.WaitGroup
}

// StartProxy runs a proxy in front of a server until the test ends.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, target: target, port: freeport.Get(t), conns: make(map[net.Conn]bool)}
	p.Accept()
	t.Cleanup(func() { p.Refuse(); p.wg.Wait() })
	return p
}

// Addr is where the proxy listens; it stays the same.
func (p *Proxy) Addr() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

// Delay holds every packet up, either way.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// CutAnswers forwards the clients' statements. If a statement contained the
// text, it cuts the connection instead of forwarding the answer. The empty text
// ends that.
func (p *Proxy) CutAnswers(text string) {
	statement := []byte(text)
	p.statement.Store(&statement)
}

// Cuts is how many answers were cut off.
func (p *Proxy) Cuts() int64 { return p.cuts.Load() }

// Refuse closes the port and all connections.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.closeConns()
}

// closeConns closes all connections; the caller holds mu.
func (p *Proxy) closeConns() {
	for c := range p.conns {
		_ = c.Close()
	}
}

// Switch closes all connections and leads new ones to another server, like an
// address that follows the primary.
func (p *Proxy) Switch(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	p.closeConns()
}

// Turn leads new connections to another server, and keeps all others, like a
// name that follows the primary.
func (p *Proxy) Turn(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Accept opens the port again.
func (p *Proxy) Accept() {
	p.t.Helper()
	l, err := freeport.Listen(p.port)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = l
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(client) })
		}
	})
}

// link is one client's connection to the server.
type link struct {
	client, server net.Conn
	asked          atomic.Bool // the statement was sent
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func (p *Proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	target := p.where()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	l := &link{client: client, server: server}
	defer l.close()
	defer p.leave(client, server)
	if !p.enter(target, client, server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { defer l.close(); p.pass(l, client, server, p.forth) })
	both.Go(func() { defer l.close(); p.pass(l, server, client, p.back) })
	both.Wait()
}

func (p *Proxy) where() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// enter reports whether connections to the target are accepted still.
func (p *Proxy) enter(target string, conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
	return p.listener != nil && p.target == target
}

func (p *Proxy) leave(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

// packet is the data of a single read, and the time at which it is due.
type packet struct {
	data []byte
	due  time.Time
}

// pass copies packets; a delayed packet does not delay the reading of the next.
func (p *Proxy) pass(l *link, from, to net.Conn, allowed func(*link, []byte) bool) {
	packets := make(chan packet, 1024)
	var writer sync.WaitGroup
	writer.Go(func() {
		for pk := range packets {
			time.Sleep(time.Until(pk.due))
			if _, err := to.Write(pk.data); err != nil {
				_ = from.Close()
			}
		}
	})
	defer writer.Wait()
	defer close(packets)
	for buf := make([]byte, 64<<10); ; {
		n, err := from.Read(buf)
		if err != nil || !allowed(l, buf[:n]) {
			return
		}
		packets <- packet{bytes.Clone(buf[:n]), time.Now().Add(time.Duration(p.delay.Load()))}
	}
}

// forth passes everything on, and notes the statement.
func (p *Proxy) forth(l *link, data []byte) bool {
	if statement := p.statement.Load(); statement != nil && len(*statement) > 0 && bytes.Contains(data, *statement) {
		l.asked.Store(true)
	}
	return true
}

// back passes no answer to the statement on.
func (p *Proxy) back(l *link, _ []byte) bool {
	if l.asked.Load() {
		p.cuts.Add(1)
		return false
	}
	return true
}
