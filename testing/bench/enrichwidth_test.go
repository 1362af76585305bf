package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/testing/natstest"
)

const widthRounds = 5

// BenchmarkEnrichWidth measures the events that several enrichments of disjoint
// subjects of a source stamp together in a second, each into a target of its
// own, beside a single enrichment of all subjects.
func BenchmarkEnrichWidth(b *testing.B) {
	for _, c := range []struct {
		name     string
		replicas int
		fast     bool
	}{{"atomic", 1, false}, {"fast", 1, true}, {"three servers", 3, false}} {
		b.Run(c.name, func(b *testing.B) { benchmarkEnrichWidth(b, c.replicas, c.fast) })
	}
}

func benchmarkEnrichWidth(b *testing.B, replicas int, fast bool) {
	servers := []*natstest.Node{nil}
	if replicas > 1 {
		servers = natstest.StartCluster(b, replicas).Servers
	} else {
		servers[0] = natstest.Start(b)
	}
	startWorker(b, servers[0], "ids", 1<<30, 1000)
	js := natstest.JetStream(b, servers[0].Connect(b), jetstream.WithPublishAsyncMaxPending(enrichWindow))
	const events = enrichEvents
	fillWideSource(b, js, events, replicas)
	target := jetstream.StreamConfig{AllowAtomicPublish: true, AllowBatchPublish: fast, Replicas: replicas}
	round := 0
	side := func(width int) func() float64 {
		return func() float64 {
			round++
			return widthRound(b, js, servers, events, width, round, target)
		}
	}
	figures := inTurns(widthRounds, side(1), side(2), side(4))
	for i, width := range []int{2, 4} {
		table.add(row{
			what: fmt.Sprintf("%d enrichments of disjoint subjects, replicas %d, allow_batched %v", width, replicas, fast), unit: "/s", beside: "one enrichment",
			subject: median(figures[i+1]), baseline: median(figures[0]), ratio: medianRatio(figures[i+1], figures[0]),
			note: fmt.Sprintf("%d events of 200 bytes", events),
		})
	}
	b.ReportMetric(0, "ns/op")
}

// fillWideSource fills a stream with subjects raw.A.B.x: two values of A, two
// of B for each.
func fillWideSource(b *testing.B, js jetstream.JetStream, events, replicas int) {
	b.Helper()
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "RAW", Subjects: []string{"raw.>"}, Replicas: replicas}); err != nil {
		b.Fatal(err)
	}
	for i := range events {
		if _, err := js.PublishAsync(fmt.Sprintf("raw.%d.%d.%d", i%2, i/2%2, i%100), make([]byte, 200), jetstream.WithStallWait(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
}

// widthRound enriches all events by that many enrichments at once, each with a
// connection and a target of its own.
func widthRound(b *testing.B, js jetstream.JetStream, servers []*natstest.Node, events, width, round int, target jetstream.StreamConfig) float64 {
	b.Helper()
	filters := map[int][]string{1: {">"}, 2: {"0.>", "1.>"}, 4: {"0.0.>", "0.1.>", "1.0.>", "1.1.>"}}[width]
	var targets []jetstream.Stream
	var conns []*nats.Conn
	for i, filter := range filters {
		target.Name = fmt.Sprintf("READY_%d_%d", round, i)
		target.Subjects = []string{target.Name + "." + filter}
		s, err := js.CreateStream(b.Context(), target)
		if err != nil {
			b.Fatal(err)
		}
		targets, conns = append(targets, s), append(conns, servers[i%len(servers)].Connect(b))
		defer func() { _ = js.DeleteStream(context.Background(), s.CachedInfo().Config.Name) }()
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, width)
	start := time.Now()
	for i, filter := range filters {
		own := natstest.JetStream(b, conns[i])
		cfg := enrich.Config{From: "RAW", Filter: "raw." + filter, To: targets[i].CachedInfo().Config.Subjects[0], Replicas: target.Replicas}
		go func() { ended <- enrichInto(ctx, own, conns[i], cfg) }()
	}
	natstest.Eventually(b, "all events", func() bool {
		var n uint64
		for _, s := range targets {
			if info, err := s.Info(ctx); err == nil {
				n += info.State.Msgs
			}
		}
		return n >= uint64(events)
	})
	rate := float64(events) / time.Since(start).Seconds()
	cancel()
	for range filters {
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
	return rate
}
