package proxy

import (
	"bytes"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// trap is a text that a proxy watches for.
type trap struct {
	to           Direction
	text         []byte
	close, after bool
	sprung       chan struct{} // closed when the connection is cut
}

// link is a client's connection to a server. Proxy.mu guards its flags.
type link struct {
	ends [2]net.Conn // by the direction of the data that is written to it
	half [2]half

	held     bool // at a text
	lost     bool // data
	asked    bool // the statement whose answer is cut off
	answered bool // the server sent last
}

// half is one direction of a link.
type half struct {
	sync.Mutex        // held while data is forwarded
	kept       []byte // data that was held back, or may be the beginning of a text
}

func (l *link) close() { _, _ = l.ends[ToServer].Close(), l.ends[ToClient].Close() }

// serve serves a client until it or its server hangs up.
func (p *Proxy) serve(client net.Conn) {
	var server string
	var cut int
	p.set(func() {
		server, cut = p.servers[0], p.cut
		p.servers = append(p.servers[1:], server)
	})
	conn, err := net.Dial("tcp", server)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{ends: [2]net.Conn{ToServer: conn, ToClient: client}}
	defer l.close()
	p.set(func() {
		p.links[l] = true
		if p.cut != cut || p.listener == nil {
			l.close()
		}
	})
	var both sync.WaitGroup
	for _, to := range Both {
		both.Go(func() { p.pass(l, to) })
	}
	both.Wait()
	p.set(func() { delete(p.links, l) })
}

// packet is the data of a single read, and the time at which it is due.
type packet struct {
	data []byte
	due  time.Time
}

// pass copies packets; a delayed packet does not delay the reading of the next.
func (p *Proxy) pass(l *link, to Direction) {
	defer l.close()
	packets := make(chan packet, 1024)
	go func() {
		defer close(packets)
		for buf := make([]byte, 64<<10); ; {
			n, err := l.ends[1-to].Read(buf)
			if err != nil {
				return
			}
			packets <- packet{bytes.Clone(buf[:n]), time.Now().Add(p.wait(n))}
		}
	}()
	for pk := range packets {
		time.Sleep(time.Until(pk.due))
		if !p.forward(l, to, pk.data) {
			l.close()
		}
	}
}

// wait waits as long as the rate takes for n bytes, and returns their delay.
func (p *Proxy) wait(n int) (delay time.Duration) {
	var slow time.Duration
	p.set(func() {
		if p.rate > 0 {
			slow = time.Duration(n) * time.Second / time.Duration(p.rate)
		}
		if delay = p.delay; p.jitter > 0 {
			delay += rand.N(p.jitter)
		}
	})
	time.Sleep(slow)
	return delay
}

// forward forwards what may pass of the data, behind all that was kept, and
// reports whether the connection goes on.
func (p *Proxy) forward(l *link, to Direction, data []byte) (open bool) {
	h := &l.half[to]
	h.Lock()
	defer h.Unlock()
	var sprung *trap
	p.set(func() { data, h.kept, sprung, open = p.allow(l, to, append(h.kept, data...)) })
	if len(data) > 0 {
		_, err := l.ends[to].Write(data)
		open = open && err == nil
	}
	if sprung != nil {
		if sprung.close {
			l.close()
		}
		close(sprung.sprung)
	}
	return open
}

// allow returns the data that may pass, and the data to keep for the next time.
func (p *Proxy) allow(l *link, to Direction, data []byte) (pass, keep []byte, sprung *trap, open bool) {
	if len(data) > 0 {
		if to == ToServer && l.answered {
			p.trips++
		}
		l.answered = to == ToClient
	}
	switch {
	case p.lose[to]:
		l.lost = l.lost || len(data) > 0
		return nil, nil, nil, true
	case p.holding || l.held:
		return nil, data, nil, true
	case to == ToClient && l.asked:
		p.cuts++
		return nil, nil, nil, false
	case to == ToServer && len(p.statement) > 0 && bytes.Contains(data, p.statement):
		l.asked = true
	}
	t := p.trap
	if t == nil || t.to != to {
		return data, nil, nil, true
	}
	at := bytes.Index(data, t.text)
	if at < 0 { // the end may be the beginning of the text
		n := min(len(data), len(t.text)-1)
		for !bytes.HasPrefix(t.text, data[len(data)-n:]) {
			n--
		}
		return data[:len(data)-n], data[len(data)-n:], nil, true
	}
	if t.after {
		at += len(t.text)
		at += bytes.IndexByte(data[at:], '\n') + 1
	}
	p.trap, l.held = nil, !t.close
	return data[:at], data[at:], t, !t.close
}
