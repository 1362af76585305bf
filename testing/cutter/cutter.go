// Package cutter cuts connections at a given text, like a machine that crashes
// between two writes.
package cutter

import (
	"bytes"
	"net"
	"slices"
	"strings"
	"sync"
)

// Cutter is a proxy in front of NATS servers: each connection goes to the next
// server. Armed with a text, it forwards all bytes before the text in one
// direction, then nothing in either. The client is cut off at that very point,
// but does not notice until it is killed, or until Release forwards the bytes
// that were held back.
type Cutter struct {
	url      string
	listener net.Listener

	mu    sync.Mutex
	next  []string // servers, in the order in which they are tried
	toUs  bool     // the server sends the text, not the client
	text  []byte
	hit   chan struct{} // closed when the text came by
	last  *link         // the link cut last
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

// Start runs a cutter in front of servers, until Close.
func Start(urls ...string) (*Cutter, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &Cutter{
		url: "nats://" + l.Addr().String(), next: slices.Clone(urls), listener: l,
		hit: make(chan struct{}), conns: make(map[net.Conn]bool),
	}
	c.wg.Go(c.accept)
	return c, nil
}

// URL is where clients connect.
func (c *Cutter) URL() string { return c.url }

// Arm has connections cut where the server, or else the client, sends the text.
// The channel is closed when that has happened.
func (c *Cutter) Arm(server bool, text string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.toUs, c.text, c.hit = server, []byte(text), make(chan struct{})
	return c.hit
}

// server is the address of the server for the next connection.
func (c *Cutter) server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	url := c.next[0]
	c.next = append(c.next[1:], url)
	return strings.TrimPrefix(url, "nats://")
}

func (c *Cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.server())
		if err != nil {
			_ = client.Close()
			continue
		}
		c.mu.Lock()
		c.conns[client], c.conns[server] = true, true
		c.mu.Unlock()
		l := &link{to: map[bool]net.Conn{true: client, false: server}, held: make(map[bool][]byte)}
		c.wg.Go(func() { c.pass(l, client, server, false) })
		c.wg.Go(func() { c.pass(l, server, client, true) })
	}
}

// link is a client's connection to the server. The key of its maps is true for
// the server's bytes, false for the client's.
type link struct {
	to map[bool]net.Conn

	mu   sync.Mutex
	cut  bool
	held map[bool][]byte // since the cut
}

// Release forwards the bytes held back, if any, and then everything again.
func (c *Cutter) Release() {
	c.mu.Lock()
	l := c.last
	c.mu.Unlock()
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for server, data := range l.held {
		_, _ = l.to[server].Write(data) // fails if the other side has hung up
		delete(l.held, server)
	}
	l.cut = false
}

// pass copies from one side to the other. A text may come in two reads, so the
// end of the previous read is searched again.
func (c *Cutter) pass(l *link, from, to net.Conn, server bool) {
	defer func() { _, _ = from.Close(), to.Close() }()
	var before []byte
	for buf := make([]byte, 64<<10); ; {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		allowed := c.allowed(l, server, before, buf[:n])
		if _, err := to.Write(buf[:allowed]); err != nil {
			return
		}
		before = append(before, buf[:n]...)
		before = bytes.Clone(before[max(0, len(before)-64):])
	}
}

// allowed is how many bytes of data may pass. The rest is held back.
func (c *Cutter) allowed(l *link, server bool, before, data []byte) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.held[server] = append(l.held[server], data[n:]...) }()
	if l.cut {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.text) == 0 || c.toUs != server {
		return len(data)
	}
	before = before[max(0, len(before)-len(c.text)+1):]
	at := bytes.Index(append(bytes.Clone(before), data...), c.text)
	if at < 0 {
		return len(data)
	}
	l.cut, c.last, c.text = true, l, nil
	close(c.hit)
	return max(0, at-len(before))
}

// Close ends the cutter and all connections.
func (c *Cutter) Close() {
	_ = c.listener.Close()
	c.mu.Lock()
	for conn := range c.conns {
		_ = conn.Close()
	}
	c.mu.Unlock()
	c.wg.Wait()
}
