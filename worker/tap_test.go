package worker

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"testing"
)

// tap is a proxy in front of a NATS server that can cut its connections where
// one side sends a certain text, and signal that.
type tap struct {
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	refuse bool
	armed  *trap
}

// trap is a text that a tap watches for.
type trap struct {
	server bool // in the server's data; otherwise the clients'
	text   string
	after  bool          // the text passes, and the following data does not
	sprung chan struct{} // closed when the connection is cut
}

func startTap(t testing.TB, url string) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{target: strings.TrimPrefix(url, "nats://"), listener: l, conns: make(map[net.Conn]bool)}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut(true)
		p.wg.Wait()
	})
	return p
}

func (p *tap) url() string { return "nats://" + p.listener.Addr().String() }

// arm cuts the next connection at a text, and then closes the returned channel.
func (p *tap) arm(server bool, text string, after bool) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = &trap{server, text, after, make(chan struct{})}
	return p.armed.sprung
}

// cut closes all connections, and refuses new connections until open is called.
func (p *tap) cut(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
	for c := range p.conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

func (p *tap) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = false
}

func (p *tap) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil || !p.admit(client, server) {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		p.wg.Go(func() { p.pass(client, server, false) })
		p.wg.Go(func() { p.pass(server, client, true) })
	}
}

func (p *tap) admit(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse {
		return false
	}
	p.conns[client], p.conns[server] = true, true
	return true
}

func (p *tap) pass(from, to net.Conn, server bool) {
	defer func() { _, _ = from.Close(), to.Close() }()
	held := 0 // bytes of buf that may be the beginning of the text
	for buf := make([]byte, 64<<10); ; {
		n, err := from.Read(buf[held:])
		if err != nil {
			return
		}
		all := buf[:held+n]
		n, sprung := p.spring(server, all)
		if _, err := to.Write(all[:n]); err != nil && sprung == nil {
			return
		}
		held = copy(buf, all[n:])
		if sprung != nil {
			_, _ = from.Close(), to.Close()
			close(sprung)
			return
		}
	}
}

// spring returns how much may pass, and the channel of the trap if it sprung. A
// possible beginning of the text is kept for the next time.
func (p *tap) spring(server bool, data []byte) (int, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	trap := p.armed
	if trap == nil || trap.server != server {
		return len(data), nil
	}
	at := bytes.Index(data, []byte(trap.text))
	if at < 0 {
		n := min(len(data), len(trap.text)-1)
		for !bytes.HasPrefix([]byte(trap.text), data[len(data)-n:]) {
			n--
		}
		return len(data) - n, nil
	}
	if trap.after {
		at += len(trap.text)
		at += bytes.IndexByte(data[at:], '\n') + 1
	}
	p.armed = nil
	return at, trap.sprung
}
