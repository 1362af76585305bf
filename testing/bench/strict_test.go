package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker"
)

const (
	strictWorkers = 3
	strictLoaders = 2

	strictBar = 0.6 // × the echo's throughput, with 256 in flight on JetStream that does not sync every write
	aloneBar  = 350 // µs, p50 of a single caller there
)

// strictStores are the stores of strict tags.
var strictStores = []struct {
	name  string
	start func(b *testing.B) (net connector, table store.Database, replicas int)
}{
	{"jetstream", func(b *testing.B) (connector, store.Database, int) { return natstest.Start(b), nil, 1 }},
	{"jetstream-synced", func(b *testing.B) (connector, store.Database, int) {
		return natstest.Start(b, syncAlways), nil, 1
	}},
	{"jetstream-3-replicas", func(b *testing.B) (connector, store.Database, int) {
		return natstest.StartCluster(b, 3), nil, 3
	}},
	{"mysql", func(b *testing.B) (connector, store.Database, int) {
		return natstest.Start(b), openTable(b, databases[0].start(b).DB), 1
	}},
	{"postgres", func(b *testing.B) (connector, store.Database, int) {
		return natstest.Start(b), openTable(b, databases[1].start(b).DB), 1
	}},
}

// BenchmarkStrict measures requests for a strict tag, which three workers
// answer by way of two loaders, beside a bare echo on the same servers. Each
// caller has a connection of its own.
func BenchmarkStrict(b *testing.B) {
	for _, s := range strictStores {
		b.Run(s.name, func(b *testing.B) {
			net, table, replicas := s.start(b)
			startEcho(b, net, "echo")
			startStrict(b, net, table, replicas)
			for _, inFlight := range []int{1, 64, 256} {
				b.Run(fmt.Sprintf("inflight=%d", inFlight), func(b *testing.B) { benchmarkStrict(b, net, s.name, inFlight) })
			}
		})
	}
}

func benchmarkStrict(b *testing.B, net connector, name string, inFlight int) {
	call := newCallers(b, net, inFlight)
	side := func(prefix messages.Prefix) func() measured {
		return func() measured { return call.round(b, prefix.Segment(busyTag), requestRound) }
	}
	figures := inTurns(tier.Pick(9, 31), side("echo"), side(messages.DefaultPrefix))
	echo, strict := figures[0], figures[1]
	add := func(metric, unit string, field func(measured) float64, bar bar) {
		ratio := medianRatio(column(strict, field), column(echo, field))
		b.ReportMetric(ratio, metric+"/echo")
		b.ReportMetric(median(column(strict, field)), metric)
		table.add(row{
			what: fmt.Sprintf("strict tag, %s, %d in flight: %s", name, inFlight, metric), unit: unit, beside: "echo",
			ratio: ratio, bar: bar, subject: median(column(strict, field)), baseline: median(column(echo, field)),
		})
	}
	rateBar := bar{}
	if inFlight == 256 && name == "jetstream" {
		rateBar = atLeast(strictBar)
	}
	add("throughput", "/s", func(m measured) float64 { return m.rate }, rateBar)
	add("p50", "µs", func(m measured) float64 { return m.p50 }, bar{})
	add("p99", "µs", func(m measured) float64 { return m.p99 }, bar{})
	if inFlight == 1 && name == "jetstream" {
		table.add(row{what: "strict tag, one caller alone: p50", unit: "µs", subject: median(column(strict, func(m measured) float64 { return m.p50 })), bar: atMost(aloneBar)})
	}
	b.ReportMetric(0, "ns/op")
}

// startStrict starts workers and loaders, with connections of their own, and
// creates a strict tag.
func startStrict(b *testing.B, net connector, table store.Database, replicas int) {
	b.Helper()
	s := newSite(b, net, worker.Config{Replicas: replicas}, table)
	for range strictLoaders {
		s.mustStart(worker.RoleLoader)
	}
	for range strictWorkers {
		s.mustStart(worker.RoleWorker)
	}
	s.create(store.Tag{Name: busyTag, Step: 1000, Next: firstID, Order: store.Strict})
	ctx, cancel := context.WithTimeout(b.Context(), natstest.Patience)
	defer cancel()
	if _, err := messages.NewClient(net.Connect(b), messages.DefaultPrefix).Next(ctx, busyTag); err != nil {
		b.Fatal(err)
	}
}
