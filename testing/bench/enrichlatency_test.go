package bench

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/testing/natstest"
)

const (
	latencyRounds = 5
	latencyEvents = 200 // each round, 10 ms apart

	latencyBar, latencyTailBar = 10, 50 // ms
)

// BenchmarkEnrichLatency measures the time from publishing an event until it is
// in the target with its ID, at 100 events a second, beside a loop that copies
// events singly.
func BenchmarkEnrichLatency(b *testing.B) {
	srv := natstest.Start(b)
	startWorker(b, srv, "ids", 1<<30, 1000)
	conn := srv.Connect(b)
	js := natstest.JetStream(b, conn)
	side := func(name string, fast bool, copies func(ctx context.Context, js jetstream.JetStream, conn *nats.Conn, name string) error) func() [2]float64 {
		for _, cfg := range []jetstream.StreamConfig{
			{Name: "RAW_" + name, Subjects: []string{"raw." + name}},
			{Name: "READY_" + name, Subjects: []string{"ready." + name}, AllowAtomicPublish: true, AllowBatchPublish: fast},
		} {
			if _, err := js.CreateStream(b.Context(), cfg); err != nil {
				b.Fatal(err)
			}
		}
		return func() [2]float64 { return latencyRound(b, js, conn, name, copies) }
	}
	names := []string{"copied one by one", "enriched", "enriched, allow_batched"}
	figures := inTurns(latencyRounds, side("bare", false, copiedOneByOne), side("atomic", false, enrichedAlone), side("fast", true, enrichedAlone))
	for i, p := range []struct {
		name string
		bar  bar
	}{{"p50", atMost(latencyBar)}, {"p99", atMost(latencyTailBar)}} {
		for side, name := range names {
			ms := median(column(figures[side], func(f [2]float64) float64 { return f[i] }))
			table.add(row{what: p.name + " from published to " + name, unit: "ms", subject: ms, bar: p.bar, note: "100 events/s"})
			b.ReportMetric(ms, strings.ReplaceAll(name, " ", "-")+"-"+p.name+"-ms")
		}
	}
	b.ReportMetric(0, "ns/op")
}

// latencyRound runs a copier from RAW_name to READY_name, and returns p50 and
// p99 in milliseconds.
func latencyRound(b *testing.B, js jetstream.JetStream, conn *nats.Conn, name string,
	copies func(ctx context.Context, js jetstream.JetStream, conn *nats.Conn, name string) error) [2]float64 {
	b.Helper()
	consumer, err := js.OrderedConsumer(b.Context(), "READY_"+name, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy})
	if err != nil {
		b.Fatal(err)
	}
	arrived, err := consumer.Messages()
	if err != nil {
		b.Fatal(err)
	}
	defer arrived.Stop()
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- copies(ctx, js, conn, name) }()
	began := make(chan time.Time, latencyEvents)
	next := func() {
		if _, err := arrived.Next(jetstream.NextMaxWait(10 * time.Second)); err != nil {
			b.Fatal(err)
		}
	}
	_ = conn.Publish("raw."+name, nil)
	next() // both sides run
	go func() {
		for range latencyEvents {
			time.Sleep(10 * time.Millisecond)
			began <- time.Now()
			_ = conn.Publish("raw."+name, []byte(strings.Repeat("x", 200)))
		}
	}()
	var took []time.Duration
	for range latencyEvents {
		next()
		took = append(took, time.Since(<-began))
	}
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	slices.Sort(took)
	ms := func(p float64) float64 { return float64(percentile(took, p).Microseconds()) / 1000 }
	return [2]float64{ms(0.5), ms(0.99)}
}

func enrichedAlone(ctx context.Context, js jetstream.JetStream, conn *nats.Conn, name string) error {
	return enrichInto(ctx, js, conn, enrich.Config{From: "RAW_" + name, Filter: "raw." + name, To: "ready." + name})
}

// copiedOneByOne stores each event in the target before it reads the next.
func copiedOneByOne(ctx context.Context, js jetstream.JetStream, _ *nats.Conn, name string) error {
	consumer, err := js.CreateOrUpdateConsumer(ctx, "RAW_"+name, jetstream.ConsumerConfig{Durable: "copy", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		return err
	}
	events, err := consumer.Messages()
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, events.Stop)
	for {
		event, err := events.Next()
		if errors.Is(err, jetstream.ErrMsgIteratorClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := js.PublishMsg(ctx, &nats.Msg{Subject: "ready." + name, Header: event.Headers(), Data: event.Data()}); err == nil {
			_ = event.Ack()
		}
	}
}

// startEnricher runs an enricher until it is stopped.
func startEnricher(b *testing.B, js jetstream.JetStream, conn *nats.Conn, cfg enrich.Config) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- enrichInto(ctx, js, conn, cfg) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkEnrichMemory measures the memory for events of 200 KB, beside the
// heap at rest. Server and worker are in this process and count as well.
func BenchmarkEnrichMemory(b *testing.B) {
	srv := natstest.Start(b, func(o *server.Options) { o.JetStreamMaxStore = 4 << 30 })
	startWorker(b, srv, "ids", 1<<30, 1000)
	conn := srv.Connect(b)
	js := natstest.JetStream(b, conn)
	for _, cfg := range []jetstream.StreamConfig{
		{Name: "RAW", Subjects: []string{"raw.>"}},
		{Name: "READY", Subjects: []string{"ready.>"}, AllowAtomicPublish: true},
	} {
		if _, err := js.CreateStream(b.Context(), cfg); err != nil {
			b.Fatal(err)
		}
	}
	const events = 2000
	for range events {
		if _, err := js.Publish(b.Context(), "raw.1", make([]byte, 200<<10)); err != nil {
			b.Fatal(err)
		}
	}
	inUse := func() float64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	runtime.GC()
	rest, most := inUse(), 0.0
	stop := startEnricher(b, js, srv.Connect(b), enrich.Config{From: "RAW", Filter: "raw.>", To: "ready.>"})
	defer stop()
	natstest.Eventually(b, "all events", func() bool {
		runtime.GC()
		most = max(most, inUse())
		s, err := js.Stream(b.Context(), "READY")
		return err == nil && s.CachedInfo().State.Msgs == events
	})
	b.ReportMetric(most-rest, "MB-above-rest")
	b.ReportMetric(0, "ns/op")
}
