// Package proxy stands between servers and their clients, and disturbs their
// connections: it refuses, delays, holds back or loses data, and cuts a
// connection at a given text, like a machine that crashes between two writes.
// Settings apply to all connections, existing ones included.
//
// proxy.go has the settings, link.go the connections.
package proxy

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/freeport"
)

// Direction is where data goes.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// Both are both directions.
var Both = []Direction{ToServer, ToClient}

// Proxy forwards each connection to the next of its servers.
type Proxy struct {
	t    testing.TB
	port int

	mu       sync.Mutex
	servers  []string     // in the order in which they are tried
	listener net.Listener // nil while connections are refused
	links    map[*link]bool
	cut      int // how often all connections were closed
	wg       sync.WaitGroup

	delay, jitter time.Duration
	rate          int // bytes a second; 0: any
	lose          map[Direction]bool
	holding       bool
	statement     []byte
	trap          *trap
	cuts, trips   int64
}

// Start runs a proxy in front of servers until the test ends. Addresses may
// have the scheme nats. Its methods may be called from any goroutine.
func Start(t testing.TB, servers ...string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, port: freeport.Get(t), links: make(map[*link]bool), lose: make(map[Direction]bool)}
	p.Turn(servers...)
	p.Accept()
	t.Cleanup(func() { p.Refuse(); p.wg.Wait() })
	return p
}

// Addr is where the proxy listens; it stays the same.
func (p *Proxy) Addr() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

// URL is where clients of NATS connect.
func (p *Proxy) URL() string { return "nats://" + p.Addr() }

// set changes settings.
func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// Accept opens the port again.
func (p *Proxy) Accept() {
	p.t.Helper()
	l, err := freeport.Listen(p.port)
	if err != nil {
		p.t.Fatal(err)
	}
	p.set(func() { p.listener = l })
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

// Refuse closes the port and all connections.
func (p *Proxy) Refuse() {
	p.set(func() {
		if p.listener != nil {
			_ = p.listener.Close()
			p.listener = nil
		}
	})
	p.Cut()
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.set(func() {
		p.cut++
		for l := range p.links {
			l.close()
		}
	})
}

// Turn leads new connections to other servers, and keeps all others, like a
// name that follows the primary.
func (p *Proxy) Turn(servers ...string) {
	p.set(func() {
		p.servers = nil
		for _, s := range servers {
			p.servers = append(p.servers, strings.TrimPrefix(s, "nats://"))
		}
	})
}

// Switch closes all connections, and leads new ones to another server, like an
// address that follows the primary.
func (p *Proxy) Switch(server string) {
	p.Turn(server)
	p.Cut()
}

// Delay delays all data by a time, and up to a jitter more.
func (p *Proxy) Delay(by, jitter time.Duration) { p.set(func() { p.delay, p.jitter = by, jitter }) }

// Narrow lets so many bytes a second pass in each direction.
func (p *Proxy) Narrow(rate int) { p.set(func() { p.rate = rate }) }

// Lose loses all data in some directions, until Mend.
func (p *Proxy) Lose(directions ...Direction) {
	p.set(func() {
		for _, d := range directions {
			p.lose[d] = true
		}
	})
}

// Mend ends Refuse, Delay, Narrow and Lose. It closes connections that have
// lost data.
func (p *Proxy) Mend() {
	var refusing bool
	p.set(func() {
		p.delay, p.jitter, p.rate, refusing = 0, 0, 0, p.listener == nil
		clear(p.lose)
		for l := range p.links {
			if l.lost {
				l.close()
			}
		}
	})
	if refusing {
		p.Accept()
	}
}

// CutAnswers forwards the clients' statements. If a statement contained the
// text, it cuts the connection instead of forwarding the answer. The empty text
// ends that.
func (p *Proxy) CutAnswers(text string) { p.set(func() { p.statement = []byte(text) }) }

// Cuts is how many answers were cut off.
func (p *Proxy) Cuts() (n int64) {
	p.set(func() { n = p.cuts })
	return n
}

// Trips is how many round trips there were: data of clients that followed an
// answer.
func (p *Proxy) Trips() (n int64) {
	p.set(func() { n = p.trips })
	return n
}

// Hold holds all data back until Release.
func (p *Proxy) Hold() { p.set(func() { p.holding = true }) }

// Release forwards all data that was held back by Hold or Freeze, and disarms
// the proxy.
func (p *Proxy) Release() {
	var links []*link
	p.set(func() {
		p.holding, p.trap = false, nil
		links = slices.Collect(maps.Keys(p.links))
		for _, l := range links {
			l.held = false
		}
	})
	for _, l := range links {
		for _, to := range Both {
			p.wg.Go(func() { p.forward(l, to, nil) }) // its receiver may not read
		}
	}
}

// Freeze arms the proxy: it forwards all bytes before the text in one
// direction, then nothing in either, until Release. The client is cut off at
// that very point, and does not notice. The channel is closed when that has
// happened.
func (p *Proxy) Freeze(to Direction, text string) (sprung <-chan struct{}) {
	return p.arm(&trap{to: to, text: []byte(text)})
}

// CutAt arms the proxy: it closes the connection at the text, or after the line
// of the text, and then the channel.
func (p *Proxy) CutAt(to Direction, text string, after bool) (sprung <-chan struct{}) {
	return p.arm(&trap{to: to, text: []byte(text), close: true, after: after})
}

// Disarm ends Freeze and CutAt.
func (p *Proxy) Disarm() { p.set(func() { p.trap = nil }) }

func (p *Proxy) arm(t *trap) <-chan struct{} {
	t.sprung = make(chan struct{})
	p.set(func() { p.trap = t })
	return t.sprung
}

// Inject writes a text to all connections in one direction, behind the data
// that was forwarded, as if the other end had sent it.
func (p *Proxy) Inject(to Direction, text string) {
	var links []*link
	p.set(func() { links = slices.Collect(maps.Keys(p.links)) })
	for _, l := range links {
		l.half[to].Lock()
		_, _ = l.ends[to].Write([]byte(text)) // fails if the connection has ended
		l.half[to].Unlock()
	}
}
