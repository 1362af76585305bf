package enrich

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap/zaptest"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) {
	natstest.Main(m)
}

// counter issues IDs as workers would, and can run out of them.
type counter struct {
	last atomic.Int64
	away atomic.Bool
	tags map[string]bool // the existing tags; nil means all
}

func (c *counter) NextN(_ context.Context, tag string, n int64) ([]messages.Range, error) {
	if c.away.Load() {
		return nil, messages.ErrUnavailable
	}
	if c.tags != nil && !c.tags[tag] {
		return nil, messages.ErrNoTag
	}
	if n > 700 {
		return nil, messages.ErrMalformed
	}
	last := c.last.Add(n)
	return []messages.Range{{First: last - n + 1, Last: last}}, nil
}

func (c *counter) SnowflakeN(ctx context.Context, n int64) ([]messages.Range, error) {
	return c.NextN(ctx, "", n)
}

// bed is a server with a source and a target.
type bed struct {
	*testing.T
	server *natstest.Node
	conn   *nats.Conn
	js     jetstream.JetStream
	ids    *counter
}

func newBed(t *testing.T, opts ...func(*server.Options)) *bed {
	t.Helper()
	srv := natstest.Start(t, opts...)
	b := &bed{T: t, server: srv, conn: srv.Connect(t), ids: &counter{}}
	b.js = b.patientJetStream(b.conn)
	b.stream(jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.raw.>"}})
	b.stream(jetstream.StreamConfig{Name: "READY", Subjects: []string{"orders.ready.>", "orders.dead"}, AllowAtomicPublish: true})
	return b
}

func (b *bed) jetStream(conn *nats.Conn) jetstream.JetStream {
	b.Helper()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(100_000))
	if err != nil {
		b.Fatal(err)
	}
	return js
}

// patientJetStream is for the tests' own requests to a busy server.
func (b *bed) patientJetStream(conn *nats.Conn) jetstream.JetStream {
	b.Helper()
	return natstest.JetStream(b, conn, jetstream.WithPublishAsyncMaxPending(100_000))
}

func (b *bed) stream(cfg jetstream.StreamConfig) jetstream.Stream {
	b.Helper()
	s, err := b.js.CreateOrUpdateStream(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// hasty are timers for tests in which timers run out.
var hasty = timers{
	turnLength: 200 * time.Millisecond, heartbeat: 200 * time.Millisecond, ownerTimeout: 600 * time.Millisecond,
	exchangeTimeout: time.Second, idsTimeout: time.Second,
	firstPause: 50 * time.Millisecond, maxPause: 400 * time.Millisecond,
	measureEvery: 200 * time.Millisecond,
}

// hastyConfig is config with hasty timers.
func (b *bed) hastyConfig() Config {
	b.Helper()
	cfg := b.config()
	cfg.timers = hasty
	return cfg
}

// patientConfig is config with timers that a busy machine does not exceed.
func (b *bed) patientConfig() Config {
	b.Helper()
	cfg := b.config()
	cfg.timers = defaultTimers
	cfg.timers.exchangeTimeout, cfg.timers.idsTimeout = natstest.Patience, natstest.Patience
	return cfg
}

// config is the configuration of most tests.
func (b *bed) config() Config {
	return Config{
		Conn: b.conn, JetStream: b.jetStream(b.conn), IDs: b.ids,
		From: "ORDERS", Filter: "orders.raw.>", To: "orders.ready.>", ID: "segment:order",
		DeadLetter: "orders.dead",
		Log:        zaptest.NewLogger(b),
	}
}

func (b *bed) open(cfg Config) *Enricher {
	b.Helper()
	e, err := Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// standsStill fails the test unless an enricher stops with ErrUndecided.
func (b *bed) standsStill(cfg Config, why string) {
	b.Helper()
	e := b.open(cfg)
	err := e.loadRecord(b.Context())
	if err == nil {
		err = e.takeOver(b.Context())
	}
	if !errors.Is(err, ErrUndecided) || !strings.Contains(err.Error(), why) {
		b.Errorf("error %v, want ErrUndecided: %s", err, why)
	}
}

// start runs an enricher until the test, or the returned function, ends it.
func (b *bed) start(cfg Config) (e *Enricher, stop func()) {
	b.Helper()
	e = b.open(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	b.Cleanup(stop)
	return e, stop
}

// publish publishes events numbered from..to on a few subjects in turn.
func (b *bed) publish(from, to int) {
	b.Helper()
	// The stream of a cluster may not be ready at once.
	first := &nats.Msg{Subject: fmt.Sprintf("orders.raw.%d", from%7), Data: []byte(strconv.Itoa(from))}
	if _, err := b.js.PublishMsg(b.Context(), first, jetstream.WithRetryAttempts(100), jetstream.WithRetryWait(100*time.Millisecond)); err != nil {
		b.Fatal(err)
	}
	for i := from + 1; i <= to; i++ {
		b.event(fmt.Sprintf("orders.raw.%d", i%7), strconv.Itoa(i), nil)
	}
	select {
	case <-b.js.PublishAsyncComplete():
	case <-time.After(natstest.Patience):
		b.Fatal("events are not acknowledged")
	}
}

func (b *bed) event(subject, data string, header nats.Header) {
	b.Helper()
	if _, err := b.js.PublishMsgAsync(&nats.Msg{Subject: subject, Header: header, Data: []byte(data)}); err != nil {
		b.Fatal(err)
	}
}

// stored lists all messages of a stream, in order.
func (b *bed) stored(stream string, filter string) (msgs []jetstream.Msg) {
	b.Helper()
	return natstest.ReadStream(b, b.js, stream, 1, filter)
}

// count returns the number of messages in a stream.
func (b *bed) count(stream string) (n uint64) {
	b.Helper()
	// A request to a stopping server is lost.
	natstest.Eventually(b, "the state of stream "+stream, func() bool {
		ctx, cancel := context.WithTimeout(b.Context(), defaultTimers.exchangeTimeout)
		defer cancel()
		s, err := b.js.Stream(ctx, stream)
		if err == nil {
			n = s.CachedInfo().State.Msgs
		}
		return err == nil
	})
	return n
}

// await waits until the target has n messages.
func (b *bed) await(n uint64) {
	b.Helper()
	natstest.Eventually(b, fmt.Sprintf("%d messages in the target", n), func() bool {
		ctx, cancel := context.WithTimeout(b.Context(), defaultTimers.exchangeTimeout)
		defer cancel()
		s, err := b.js.Stream(ctx, "READY")
		return err == nil && s.CachedInfo().State.LastSeq >= n
	})
}

// expectAll fails the test unless the target has the events 1..n, once each, in
// their order, each with its own ID.
func (b *bed) expectAll(n int) {
	b.Helper()
	b.expect(b.stored("READY", "orders.ready.>"), n)
}

// expect is expectAll for messages that were read from the target.
func (b *bed) expect(msgs []jetstream.Msg, n int) {
	b.Helper()
	if len(msgs) != n {
		b.Errorf("%d events in the target, want %d", len(msgs), n)
	}
	seen := make(map[string]bool)
	for i, msg := range msgs {
		if got, want := string(msg.Data()), strconv.Itoa(i+1); got != want {
			b.Fatalf("event %s at place %s", got, want)
		}
		if got, want := msg.Subject(), fmt.Sprintf("orders.ready.%d", (i+1)%7); got != want {
			b.Fatalf("event %d on %s, want %s", i+1, got, want)
		}
		id := msg.Headers().Get(HeaderID)
		if n, err := strconv.ParseInt(id, 10, 64); err != nil || n < 1 || seen[id] {
			b.Fatalf("event %d has the ID %q, seen before: %v", i+1, id, seen[id])
		}
		seen[id] = true
	}
}

// reason returns why the enrichment has stopped, empty if it has not.
func (f *figures) reason() (reason string) {
	f.update(func() { reason = f.failing })
	return reason
}
