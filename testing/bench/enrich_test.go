package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/testing/natstest"
)

const (
	enrichEvents = 50_000 // a fifth of that where every write is synced
	enrichRounds = 5
	enrichBar    = 0.95
	enrichWindow = 4_000 // publishes in flight, of the bare loop
)

// BenchmarkEnrich measures the events that an enricher stamps and publishes in
// a second, beside a bare loop that consumes the same events, publishes them
// unchanged to an equal stream without waiting for each answer, and
// acknowledges each stored event. A target with allow_batched gets fast
// batches, other targets atomic batches.
func BenchmarkEnrich(b *testing.B) {
	for _, c := range []struct {
		name             string
		syncAlways, fast bool
	}{{"synced", true, false}, {"atomic", false, false}, {"fast", false, true}} {
		b.Run(c.name, func(b *testing.B) { benchmarkEnrich(b, c.syncAlways, c.fast) })
	}
}

func benchmarkEnrich(b *testing.B, syncAlways, fast bool) {
	srv := natstest.Start(b, func(o *server.Options) { o.SyncAlways = syncAlways })
	startWorker(b, srv, "ids", 1<<30, 1000)
	conn := srv.Connect(b)
	js := natstest.JetStream(b, conn, jetstream.WithPublishAsyncMaxPending(enrichWindow))
	events := enrichEvents
	if syncAlways {
		events /= 5
	}
	fillSource(b, js, events)
	round := 0
	side := func(name string, run func(ctx context.Context, js jetstream.JetStream, conn *nats.Conn, to string) error) func() float64 {
		return func() float64 {
			round++
			return enrichRound(b, js, conn, events, fast, fmt.Sprintf("%s_%d", name, round), run)
		}
	}
	figures := inTurns(enrichRounds, side("bare", bareCopy), side("enriched", enriched))
	ratio := medianRatio(figures[1], figures[0])
	b.ReportMetric(ratio, "events/bare")
	b.ReportMetric(0, "ns/op")
	note := ""
	if !syncAlways && !fast {
		note = "; the server stages each batch on disk and syncs it"
	}
	table.add(row{
		what: fmt.Sprintf("enriched events, one enricher, sync always %v, allow_batched %v", syncAlways, fast), unit: "/s", beside: "bare consume and publish", ratio: ratio, bar: atLeast(enrichBar),
		subject: median(figures[1]), baseline: median(figures[0]),
		note: fmt.Sprintf("%d events of 200 bytes on 100 subjects%s", events, note),
	})
}

func fillSource(b *testing.B, js jetstream.JetStream, events int) {
	b.Helper()
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "RAW", Subjects: []string{"raw.>"}}); err != nil {
		b.Fatal(err)
	}
	event := []byte(strings.Repeat("x", 200))
	for i := range events {
		if _, err := js.PublishAsync(fmt.Sprintf("raw.%d", i%100), event, jetstream.WithStallWait(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
}

// enrichRound copies all events to a new stream, which may take fast batches,
// and returns events a second.
func enrichRound(b *testing.B, js jetstream.JetStream, conn *nats.Conn, events int, fast bool, name string,
	run func(ctx context.Context, js jetstream.JetStream, conn *nats.Conn, to string) error) float64 {
	b.Helper()
	target, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, AllowAtomicPublish: true, AllowBatchPublish: fast})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = js.DeleteStream(context.Background(), name) }()
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	start := time.Now()
	go func() { ended <- run(ctx, js, conn, name) }()
	natstest.Eventually(b, "all events in "+name, func() bool {
		info, err := target.Info(ctx)
		return err == nil && info.State.Msgs >= uint64(events)
	})
	rate := float64(events) / time.Since(start).Seconds()
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	if info, err := target.Info(b.Context()); err != nil || info.State.Msgs != uint64(events) {
		b.Fatalf("%s: %v, %+v", name, err, info.State)
	}
	return rate
}

// enriched copies by an enricher.
func enriched(ctx context.Context, js jetstream.JetStream, conn *nats.Conn, to string) error {
	return enrichInto(ctx, js, conn, enrich.Config{From: "RAW", Filter: "raw.>", To: to + ".>"})
}

func enrichInto(ctx context.Context, js jetstream.JetStream, conn *nats.Conn, cfg enrich.Config) error {
	cfg.Conn, cfg.JetStream, cfg.IDs, cfg.Prefix, cfg.ID = conn, js, messages.NewClient(conn, "ids"), "ids", "segment:"+busyTag
	e, err := enrich.Open(ctx, cfg)
	if err != nil {
		return err
	}
	e.Run(ctx)
	return nil
}

// bareCopy copies as plainly and as fast as at-least-once allows.
func bareCopy(ctx context.Context, js jetstream.JetStream, _ *nats.Conn, to string) error {
	consumer, err := js.CreateConsumer(ctx, "RAW", jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 2 * enrichWindow,
	})
	if err != nil {
		return err
	}
	type copied struct {
		msg    jetstream.Msg
		stored jetstream.PubAckFuture
	}
	pending := make(chan copied, enrichWindow)
	acked := make(chan struct{})
	go func() {
		defer close(acked)
		for c := range pending {
			select {
			case <-c.stored.Ok():
				_ = c.msg.Ack()
			case <-ctx.Done():
			}
		}
	}()
	consume, err := consumer.Consume(func(msg jetstream.Msg) {
		out := &nats.Msg{Subject: to + strings.TrimPrefix(msg.Subject(), "raw"), Header: msg.Headers(), Data: msg.Data()}
		if stored, err := js.PublishMsgAsync(out, jetstream.WithStallWait(10*time.Second)); err == nil {
			pending <- copied{msg, stored}
		}
	}, jetstream.PullMaxMessages(2000))
	if err != nil {
		return err
	}
	<-ctx.Done()
	consume.Stop()
	<-consume.Closed()
	close(pending)
	<-acked
	return js.DeleteConsumer(context.Background(), "RAW", consumer.CachedInfo().Name)
}
