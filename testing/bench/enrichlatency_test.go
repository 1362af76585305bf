package bench

import (
	"context"
	"runtime"
	"slices"
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

// BenchmarkEnrichLatency measures the time from publishing an event until it is in the
// target with its ID, at 100 events a second.
func BenchmarkEnrichLatency(b *testing.B) {
	srv := natstest.Start(b)
	startWorker(b, srv, "ids", 1<<30, 1000)
	conn := srv.Connect(b)
	js, err := jetstream.New(conn)
	if err != nil {
		b.Fatal(err)
	}
	for _, fast := range []bool{false, true} {
		name := map[bool]string{false: "atomic", true: "fast"}[fast]
		for _, cfg := range []jetstream.StreamConfig{
			{Name: "RAW_" + name, Subjects: []string{"raw." + name}},
			{Name: "READY_" + name, Subjects: []string{"ready." + name}, AllowAtomicPublish: true, AllowBatchPublish: fast},
		} {
			if _, err := js.CreateStream(b.Context(), cfg); err != nil {
				b.Fatal(err)
			}
		}
		stop := startEnricher(b, js, conn, enrich.Config{From: "RAW_" + name, Filter: "raw." + name, To: "ready." + name, ID: "segment:" + busyTag})
		consumer, err := js.OrderedConsumer(b.Context(), "READY_"+name, jetstream.OrderedConsumerConfig{})
		if err != nil {
			b.Fatal(err)
		}
		arrived, err := consumer.Messages()
		if err != nil {
			b.Fatal(err)
		}
		const events = 1000
		began := make([]time.Time, events)
		go func() {
			for i := range began {
				time.Sleep(10 * time.Millisecond)
				began[i] = time.Now()
				_ = conn.Publish("raw."+name, []byte(strings.Repeat("x", 200)))
			}
		}()
		var took []time.Duration
		for i := range began {
			if _, err := arrived.Next(jetstream.NextMaxWait(10 * time.Second)); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began[i]))
		}
		arrived.Stop()
		stop()
		slices.Sort(took)
		b.ReportMetric(float64(took[events/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(took[events*99/100].Microseconds())/1000, name+"-p99-ms")
	}
	b.ReportMetric(0, "ns/op")
}

// startEnricher runs an enricher until it is stopped.
func startEnricher(b *testing.B, js jetstream.JetStream, conn *nats.Conn, cfg enrich.Config) (stop func()) {
	b.Helper()
	cfg.Conn, cfg.JetStream, cfg.IDs, cfg.Prefix = conn, js, messages.NewClient(conn, "ids"), "ids"
	e, err := enrich.Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// BenchmarkEnrichMemory measures how much memory events of 200 KB take, beside the heap at
// rest. Server and worker are in this process, too: what they take counts as well.
func BenchmarkEnrichMemory(b *testing.B) {
	srv := natstest.Start(b, func(o *server.Options) { o.JetStreamMaxStore = 4 << 30 })
	startWorker(b, srv, "ids", 1<<30, 1000)
	conn := srv.Connect(b)
	js, err := jetstream.New(conn)
	if err != nil {
		b.Fatal(err)
	}
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
	stop := startEnricher(b, js, srv.Connect(b), enrich.Config{From: "RAW", Filter: "raw.>", To: "ready.>", ID: "segment:" + busyTag})
	defer stop()
	natstest.Eventually(b, time.Minute, "all events", func() bool {
		runtime.GC()
		most = max(most, inUse())
		s, err := js.Stream(b.Context(), "READY")
		return err == nil && s.CachedInfo().State.Msgs == events
	})
	b.ReportMetric(most-rest, "MB-above-rest")
	b.ReportMetric(0, "ns/op")
}
