package leaftest

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
)

// A statement whose answer is lost is not sent again: its range is a gap.
func (b *Backend) testSentOnce(t *testing.T) {
	db := b.Database(t)
	db.Exec(t, b.Shapes["official"], "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10)")
	proxy := dbtest.StartProxy(t, db.Addr())
	s := Open(t, db.DSNVia(proxy), "leaf_alloc")
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := int64(1)
	for call, change := range map[string]struct {
		statement string
		by        int64
		call      func() error
	}{
		"Reserve":   {"SET max_id", 100, func() error { _, err := s.Reserve(t.Context(), "order", 100); return err }},
		"CreateTag": {"INSERT", 0, func() error { return s.CreateTag(t.Context(), store.Tag{Name: "new", Step: 1, Next: 7}) }},
	} {
		before := proxy.Cuts()
		proxy.CutAnswers(change.statement)
		if err := change.call(); err == nil {
			t.Errorf("%s succeeded without an answer", call)
		}
		proxy.CutAnswers("")
		if n := proxy.Cuts() - before; n != 1 {
			t.Errorf("%s: %d answers were lost, want one statement and one answer", call, n)
		}
		next += change.by
	}
	direct := Open(t, db.DSN(), "leaf_alloc")
	natstest.Eventually(t, "both statements to take effect", func() bool {
		order, _ := direct.Find(t.Context(), "order")
		created, _ := direct.Find(t.Context(), "new")
		return order.Next == next && created.Next == 7
	})
	if seg, err := s.Reserve(t.Context(), "order", 10); err != nil || seg.First != next {
		t.Errorf("Reserve after that: %v, %v, want one from %d on", seg, err, next)
	}
}

// A reservation costs a single round trip, even on a connection that was idle.
func (b *Backend) testOneRoundTrip(t *testing.T) {
	db := b.Database(t)
	db.Exec(t, b.Shapes["official"], "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10)")
	c := count(t, db.Addr())
	s := Open(t, strings.Replace(db.DSN(), db.Addr(), c.addr, 1), "leaf_alloc")
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	const calls = 20
	before := c.turns.Load()
	for range calls {
		if _, err := s.Reserve(t.Context(), "order", 10); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.turns.Load() - before; n != calls {
		t.Errorf("%d reservations cost %d round trips", calls, n)
	}
}

// counter counts a server's round trips: the clients' sends that follow an
// answer.
type counter struct {
	addr  string
	turns atomic.Int64
}

// count stands between a server and its clients until the test ends.
func count(t *testing.T, server string) *counter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{addr: l.Addr().String()}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.pass(t, &wg, client, server) })
		}
	})
	return c
}

func (c *counter) pass(t *testing.T, wg *sync.WaitGroup, client net.Conn, server string) {
	defer func() { _ = client.Close() }()
	conn, err := net.Dial("tcp", server)
	if err != nil {
		t.Errorf("dial the database: %v", err)
		return
	}
	var answered atomic.Bool
	wg.Go(func() {
		defer func() { _ = client.Close() }()
		_, _ = io.Copy(observer{client, func() { answered.Store(true) }}, conn)
	})
	_, _ = io.Copy(observer{conn, func() {
		if answered.Swap(false) {
			c.turns.Add(1)
		}
	}}, client)
	_ = conn.Close()
}

// observer calls seen before each write.
type observer struct {
	io.Writer
	seen func()
}

func (o observer) Write(p []byte) (int, error) {
	o.seen()
	return o.Writer.Write(p)
}
