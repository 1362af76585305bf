package enrich

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
)

// A restored source is the same source only if it still has the event that was
// enriched last.
func TestRestoredSource(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 3} {
		t.Run(fmt.Sprintf("servers=%d", size), func(t *testing.T) {
			t.Parallel()
			var b *bed
			if size == 1 {
				b = newBed(t)
			} else {
				b = newBedOn(t, natstest.StartCluster(t, size).Connect(t), size)
			}
			b.publish(1, 5)
			early := natstest.TakeSnapshot(t, b.conn, "ORDERS")
			b.publish(6, steps)
			_, stop := b.start(b.config())
			b.await(steps)
			stop()
			late := natstest.TakeSnapshot(t, b.conn, "ORDERS")
			early.Restore(t, b.conn)
			b.standsStill(b.config(), "ends at sequence 5")
			b.publish(6, steps)
			b.standsStill(b.config(), "when enriched")
			b.publish(steps+1, 2*steps)
			b.standsStill(b.config(), "when enriched")
			late.Restore(t, b.conn)
			b.publish(steps+1, 2*steps)
			b.start(b.config())
			b.await(2 * steps)
			b.expectAll(2 * steps)
		})
	}
}

// A forged reply in place of the target's is ignored.
func TestForgedCommit(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, answer := range []string{`{"ok":true}`, `{}`, `{"stream":"READY","seq":30}`, `{"stream":"OTHER","seq":30,"batch":"x","count":30}`, `{"stream":"OTHER","seq":33}`, ``, `x`} {
		if _, err := b.conn.Subscribe("orders.ready.>", func(msg *nats.Msg) { _ = msg.Respond([]byte(answer)) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, fast := range []bool{false, true} {
		target := readyConfig
		target.MaxMsgs, target.Discard, target.AllowBatchPublish = steps/2, jetstream.DiscardNew, fast
		b.recreate(target)
		b.recreate(ordersConfig)
		if err := b.js.DeleteKeyValue(t.Context(), "ids_enrich"); fast && err != nil {
			t.Fatal(err)
		}
		b.publish(1, steps)
		e, stop := b.start(b.hastyConfig())
		natstest.Eventually(t, "the enrichment stands still", func() bool {
			if n, there := e.Figures().Events, b.count("READY"); n > int64(there) {
				t.Fatalf("%d events landed in a target that has %d", n, there)
			}
			return e.Ready() != nil
		})
		target.MaxMsgs = -1
		b.stream(target)
		b.await(steps)
		stop()
		b.expectAll(steps)
	}
	alone := publisher{conn: b.conn, stream: "READY", most: 1}
	if err := alone.publish(t.Context(), []*nats.Msg{nats.NewMsg("orders.ready.1")}, steps+2); !errors.Is(err, errTargetMoved) {
		t.Errorf("event alone on a condition that is not true: %v", err)
	}
}

// Events that the source removes before they are read are counted, and stop the
// enrichment if so configured.
func TestRemovedBeforeRead(t *testing.T) {
	t.Parallel()
	for _, filter := range []string{"orders.raw.>", "orders.raw.*"} {
		for _, onLoss := range []OnLoss{GoOn, Stop} {
			if filter == "orders.raw.*" && onLoss == Stop {
				continue // refused, see TestBadEnrichments
			}
			t.Run(filter+" "+string(onLoss), func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				b.stream(jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.raw.>"}, MaxMsgs: 13})
				cfg := b.hastyConfig()
				cfg.Filter, cfg.To, cfg.OnLoss = filter, strings.Replace(filter, "raw", "ready", 1), onLoss
				b.publish(1, 1)
				_, stop := b.start(cfg)
				b.await(1)
				stop()
				b.publish(2, 51)
				e, _ := b.start(cfg)
				natstest.Eventually(t, "the loss is counted", func() bool { return e.Figures().Lost == 37 })
				if onLoss == Stop {
					natstest.Eventually(t, "the lag is measured", func() bool { f := e.Figures(); return f.Lag == 13 && f.Oldest > 0 })
					if n := b.count("READY"); n != 1 {
						t.Errorf("%d events in the target, want 1", n)
					}
					if err := Resume(t.Context(), cfg, 38, false); err != nil {
						t.Fatal(err)
					}
				}
				b.await(14)
				if f := e.Figures(); f.Lost != 37 {
					t.Errorf("%d events lost, want 37", f.Lost)
				}
			})
		}
	}
}

// Events that the filter does not match are not lost, wherever they are.
func TestOthersAreNotLost(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	cfg := b.config()
	cfg.Filter, cfg.To = "orders.raw.1", "orders.ready.1"
	b.publish(1, 3*7+1)
	e, _ := b.start(cfg)
	b.await(4) // 1, 8, 15, 22
	if f := e.Figures(); f.Lost != 0 {
		t.Errorf("%d events lost, want none", f.Lost)
	}
}

// expectOrigins fails the test unless the first n messages of the target are of
// the events 1..n of the source, each with its own ID. It does not use a reader
// that mistakes events for messages of the server.
func (b *bed) expectOrigins(stream string, n int) {
	b.Helper()
	seqs := make([]uint64, n)
	for i := range seqs {
		seqs[i] = uint64(i + 1)
	}
	msgs, err := streamread.Many(b.Context(), b.js, stream, seqs)
	if err != nil {
		b.Fatal(err)
	}
	ids := make(map[string]bool)
	for i, msg := range msgs {
		if msg == nil || msg.Malformed || msg.Header.Get(HeaderSource) != fmt.Sprintf("ORDERS %d", i+1) {
			b.Fatalf("message %d of the target is not event %d: %v", i+1, i+1, msg)
		}
		if msg.Header.Get(HeaderError) != "" {
			continue
		}
		id := msg.Header.Get(HeaderID)
		if id == "" || ids[id] {
			b.Fatalf("event %d has the ID %q, seen before %v", i+1, id, ids[id])
		}
		ids[id] = true
	}
}

// Many dead letters do not take a round trip each.
func TestManyDeadLettersOverALongLink(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.stream(jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"dead"}})
	cfg := b.config()
	cfg.JSON, cfg.DeadLetter = "id", "dead"
	for range 2 {
		cfg.Conn, _ = longLink(b, 16*time.Millisecond)
		cfg.JetStream = b.jetStream(cfg.Conn)
		b.start(cfg)
	}
	// Published in sequence they would take longer than the owner timeout.
	const bad = 1000
	for range bad {
		b.event("orders.raw.1", "broken", nil)
	}
	b.event("orders.raw.1", "{}", nil)
	b.await(1)
	if n := b.count("DEAD"); n != bad {
		t.Errorf("%d dead letters, want %d", n, bad)
	}
}

// Other publishers' messages behind a plan are read, even thousands of them
// over a slow link.
func TestManyForeignMessagesOverALongLink(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, steps)
	crashed(b, steps)
	for range 3000 {
		b.event("orders.dead", "", nil)
	}
	<-b.js.PublishAsyncComplete()
	b.publish(steps+1, 2*steps)
	cfg := b.config()
	cfg.Conn, _ = longLink(b, 4*time.Millisecond)
	cfg.JetStream = b.jetStream(cfg.Conn)
	b.start(cfg)
	b.await(2*steps + 3000)
	b.expectAll(2 * steps)
}

// longLink is a connection with at least that round-trip time, and its proxy.
func longLink(b *bed, trip time.Duration) (*nats.Conn, *proxy.Proxy) {
	b.Helper()
	p := proxy.Start(b, b.server.URL())
	p.Delay(trip/2, 0)
	conn, err := nats.Connect(p.URL(), nats.MaxReconnects(-1), nats.Timeout(natstest.Patience))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(conn.Close)
	return conn, p
}

// The limits may have shrunk since an event was planned.
func TestLimitsAreLowered(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, size := range []int{10, 3000, 20} {
		b.event("orders.raw.1", strings.Repeat("x", size), nil)
	}
	<-b.js.PublishAsyncComplete()
	e, prepared := owner(b, b.config())
	e.record.Plans, e.record.Owner = []plan{prepared.plan}, ""
	if err := e.saveRecord(t.Context()); err != nil {
		t.Fatal(err)
	}
	lower := readyConfig
	lower.MaxMsgSize = 2000
	b.stream(lower)
	b.start(b.config())
	b.await(3)
	lower.MaxMsgSize = 1500
	b.stream(lower) // while it runs
	for _, size := range []int{10, 1600, 20} {
		b.event("orders.raw.1", strings.Repeat("x", size), nil)
	}
	b.await(6)
	if dead := b.stored("READY", "orders.dead"); len(dead) != 2 {
		t.Errorf("%d dead letters, want 2", len(dead))
	}
}

// tenants have different tags.
type tenants struct {
	*counter
	meet chan struct{}
}

func (c tenants) NextN(ctx context.Context, tag string, n int64) ([]messages.Range, error) {
	switch tag {
	case "full":
		return nil, messages.ErrExhausted
	case "left", "right": // each waits for the request of the other
		select {
		case c.meet <- struct{}{}:
		case <-c.meet:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return c.counter.NextN(ctx, tag, n)
}

// IDs of all tags are requested concurrently, and an exhausted tag delays no
// other.
func TestTenants(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	cfg := b.patientConfig()
	cfg.Filter, cfg.To, cfg.ID = "orders.raw.*", "orders.ready.*", "segment:{{wildcard(1)}}"
	cfg.IDs = tenants{counter: b.ids, meet: make(chan struct{})}
	for _, tag := range []string{"full", "a", "full", "b", "c"} {
		b.event("orders.raw."+tag, "x", nil)
	}
	e, _ := b.start(cfg)
	b.await(5)
	if dead := b.stored("READY", "orders.dead"); len(dead) != 2 {
		t.Errorf("%d dead letters, want 2", len(dead))
	}
	pools := make(map[string]*idPool)
	e.fillPools(t.Context(), pools, map[string]int64{"left": 1, "full": 1, "right": 1})
	for _, tag := range []string{"left", "right"} {
		if p := pools[tag]; p.err != nil || p.size() != 1 {
			t.Errorf("%s: %d IDs, %v", tag, p.size(), p.err)
		}
	}
}

// Events before an event that waits for its ID do not wait.
func TestEventsBeforeOneWithoutID(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	cfg := b.hastyConfig()
	cfg.Filter, cfg.To, cfg.ID = "orders.raw.*", "orders.ready.*", "segment:{{wildcard(1)}}"
	cfg.IDs = awayTag{b.ids}
	for _, tag := range []string{"a", "b", "away", "c"} {
		b.event("orders.raw."+tag, "x", nil)
	}
	<-b.js.PublishAsyncComplete()
	e, _ := b.start(cfg)
	b.await(2)
	natstest.Eventually(t, "the enrichment stands still", func() bool {
		f := e.Figures()
		return e.Ready() != nil && f.Lag == 2 && f.Oldest > 0
	})
}

type awayTag struct{ *counter }

func (c awayTag) NextN(ctx context.Context, tag string, n int64) ([]messages.Range, error) {
	if tag == "away" {
		return nil, messages.ErrUnavailable
	}
	return c.counter.NextN(ctx, tag, n)
}

// A stopped enricher reads only some of the waiting large events.
func TestReadingIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(o *server.Options) { o.MaxPayload = 8 << 20 })
	b.ids.away.Store(true)
	cfg := b.config()
	cfg.Conn = b.server.Connect(t)
	cfg.JetStream = b.jetStream(cfg.Conn)
	e, _ := b.start(cfg)
	const n = 100
	for i := range n {
		size := 200 << 10
		if i == n/2 {
			size = 6 << 20 // larger than a request allows
		}
		b.event("orders.raw.1", strings.Repeat("x", size), nil)
	}
	<-b.js.PublishAsyncComplete()
	natstest.Eventually(t, "the enrichment stands still", func() bool { return e.Ready() != nil })
	natstest.Eventually(t, "all that was asked for has been delivered", func() bool {
		source, err := b.js.Stream(t.Context(), "ORDERS")
		if err != nil {
			return false
		}
		delivered := false
		// To its end, or nats.go leaves a goroutine behind.
		for c := range source.ListConsumers(t.Context()).Info() {
			delivered = delivered || c.Delivered.Consumer > 0 && (c.NumWaiting == 0 || c.NumPending == 0)
		}
		return delivered
	})
	if in := cfg.Conn.Stats().InBytes; in > 5*maxBatchBytes {
		t.Errorf("%d MB read, want %d at most", in>>20, 5*maxBatchBytes>>20)
	}
	b.ids.away.Store(false)
	b.await(n)
}

// rawPublish publishes messages whose headers no client would send.
func (b *bed) rawPublish(subject string, headers, bodies [][]byte) {
	b.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.server.URL(), "nats://"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var out strings.Builder
	out.WriteString("CONNECT {\"verbose\":false,\"headers\":true,\"protocol\":1}\r\n")
	for i, header := range headers {
		fmt.Fprintf(&out, "HPUB %s %d %d\r\n%s%s\r\n", subject, len(header), len(header)+len(bodies[i]), header, bodies[i])
	}
	out.WriteString("PING\r\n")
	go func() { _, _ = io.WriteString(conn, out.String()) }()
	var answer strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(answer.String(), "PONG") {
		_ = conn.SetReadDeadline(time.Now().Add(natstest.Patience))
		n, err := conn.Read(buf)
		if err != nil {
			b.Fatalf("%v after %s", err, answer.String())
		}
		answer.Write(buf[:n])
	}
}

// An event whose header cannot be decoded is a dead letter, also if it was
// planned.
func TestMalformedHeader(t *testing.T) {
	t.Parallel()
	for _, planned := range []bool{false, true} {
		b := newBed(t)
		b.event("orders.raw.1", "1", nil)
		<-b.js.PublishAsyncComplete()
		b.rawPublish("orders.raw.1", [][]byte{[]byte("NATS/1.0\r\nno colon\r\n\r\n"), []byte("rubbish\r\n\r\n")}, [][]byte{[]byte("2"), nil})
		if planned {
			b.put(enrichmentRecord{Plans: []plan{{Through: 3, Runs: []run{{1, 3}}}}})
		}
		b.event("orders.raw.1", "4", nil)
		b.start(b.config())
		b.await(4)
		if dead := b.stored("READY", "orders.dead"); len(dead) != 2 {
			t.Errorf("%d dead letters, want 2", len(dead))
		}
	}
}

// newBedOn returns a bed on a cluster.
func newBedOn(t *testing.T, conn *nats.Conn, replicas int) *bed {
	t.Helper()
	b := &bed{T: t, conn: conn, ids: &counter{}}
	b.js = b.patientJetStream(conn)
	for _, cfg := range []jetstream.StreamConfig{ordersConfig, readyConfig} {
		cfg.Replicas = replicas
		natstest.CreateStream(t, b.js, cfg)
	}
	return b
}
