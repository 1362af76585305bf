package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

const (
	prefetchBar    = 25 // ns for a Next
	prefetchRounds = 301
	nextsInRound   = 100_000

	batchRounds = 15
	batchRound  = 200 * time.Millisecond
)

// BenchmarkPrefetch measures Prefetcher.Next beside a bare atomic add, from a
// single core and from all of them. The batches are so large that refills are
// rare: a refill's cost depends on the workers.
func BenchmarkPrefetch(b *testing.B) {
	for _, cores := range slices.Compact([]int{1, runtime.GOMAXPROCS(0)}) {
		b.Run(fmt.Sprintf("cores=%d", cores), func(b *testing.B) { benchmarkPrefetch(b, cores) })
	}
}

func benchmarkPrefetch(b *testing.B, cores int) {
	srv := natstest.Start(b)
	startGiver(b, srv.Connect(b))
	p, err := messages.NewClient(srv.Connect(b), messages.DefaultPrefix).Prefetch(busyTag, messages.PrefetchConfig{
		Limit: 1_000_000_000, MaxBatch: 1_000_000_000,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Close)
	ctx := b.Context()
	next := func() {
		if _, err := p.Next(ctx); err != nil {
			b.Error(err)
		}
	}
	for range 20 * nextsInRound { // until batches are large
		next()
	}
	allocs := testing.AllocsPerRun(nextsInRound, next)
	if allocs != 0 {
		b.Errorf("%v allocations, want 0", allocs)
	}
	var one cell
	figures := inTurns(prefetchRounds,
		func() float64 {
			return perOp(cores, func() {
				for range nextsInRound {
					if _, err := p.Next(ctx); err != nil {
						b.Error(err)
					}
				}
			})
		},
		func() float64 {
			return perOp(cores, func() {
				for range nextsInRound {
					one.Add(1)
				}
			})
		},
	)
	subject, add := figures[0], figures[1]
	ratio := medianRatio(subject, add)
	ns := median(subject)
	b.ReportMetric(ns, "ns/op")
	b.ReportMetric(ratio, "×add")
	b.ReportMetric(allocs, "allocs/op")
	what := fmt.Sprintf("prefetched ID, callers: %d", cores)
	table.add(
		row{what: what, unit: "ns", subject: ns, baseline: median(add), beside: "atomic add", ratio: ratio, note: "0 allocations"},
		row{what: what + ", by itself", unit: "ns", subject: ns, bar: atMost(prefetchBar)},
	)
}

// perOp has each core do a round, and returns the nanoseconds per operation:
// time that went by, divided by the operations of all cores.
func perOp(cores int, round func()) float64 {
	var wg sync.WaitGroup
	begin := time.Now()
	for range cores - 1 {
		wg.Go(round)
	}
	round()
	wg.Wait()
	return float64(time.Since(begin).Nanoseconds()) / float64(cores*nextsInRound)
}

// startGiver answers requests for any number of IDs.
func startGiver(b *testing.B, nc *nats.Conn) {
	b.Helper()
	var next atomic.Int64
	_, err := nc.Subscribe(messages.DefaultPrefix.Segment(busyTag), func(req *nats.Msg) {
		n, err := messages.DecodeCount(req.Data, math.MaxInt64)
		if err != nil {
			b.Error(err)
			return
		}
		last := next.Add(n)
		_ = req.Respond(messages.AppendRange(nil, messages.Range{First: last - n + 1, Last: last}))
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkBatch measures the IDs that a caller gets from a worker in a second,
// with a request at a time, in batches of several sizes, beside single IDs; and
// from a prefetcher.
func BenchmarkBatch(b *testing.B) {
	srv := natstest.Start(b, syncAlways)
	startWorker(b, srv, messages.DefaultPrefix, 1_000_000, worker.DefaultMaxBatch)
	client := messages.NewClient(srv.Connect(b), messages.DefaultPrefix)
	ctx := b.Context()
	batch := func(n int64) func() float64 {
		return func() float64 {
			return idsPerSecond(b, func() (int64, error) {
				ranges, err := client.NextN(ctx, busyTag, n)
				var got int64
				for _, r := range ranges {
					got += r.Len()
				}
				return got, err
			})
		}
	}
	p, err := client.Prefetch(busyTag, messages.PrefetchConfig{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Close)
	prefetched := func() float64 {
		return idsPerSecond(b, func() (int64, error) { return nextThousand(ctx, p) })
	}

	sizes := []int64{1, 10, 100, 1_000, 10_000}
	sides := make([]func() float64, 0, len(sizes)+1)
	for _, n := range sizes {
		sides = append(sides, batch(n))
	}
	figures := inTurns(batchRounds, append(sides, prefetched)...)
	single := figures[0]
	for i, n := range sizes {
		b.ReportMetric(median(slices.Clone(figures[i])), fmt.Sprintf("IDs/s/batch=%d", n))
		table.add(row{
			what: fmt.Sprintf("batches of %d, one at a time", n), unit: "IDs/s", beside: "single IDs",
			subject: median(slices.Clone(figures[i])), baseline: median(slices.Clone(single)), ratio: medianRatio(figures[i], single),
		})
	}
	last := figures[len(sizes)]
	b.ReportMetric(median(slices.Clone(last)), "IDs/s/prefetched")
	b.ReportMetric(0, "ns/op")
	table.add(row{
		what: "prefetched, one caller", unit: "IDs/s", beside: "single IDs",
		subject: median(slices.Clone(last)), baseline: median(slices.Clone(single)), ratio: medianRatio(last, single),
	})
}

// nextThousand takes a thousand prefetched IDs: a clock per ID would cost more
// than the ID.
func nextThousand(ctx context.Context, p *messages.Prefetcher) (int64, error) {
	for range 1000 {
		if _, err := p.Next(ctx); err != nil {
			return 0, err
		}
	}
	return 1000, nil
}

// idsPerSecond calls next for a round.
func idsPerSecond(b *testing.B, next func() (int64, error)) float64 {
	var ids int64
	begin := time.Now()
	for time.Since(begin) < batchRound {
		n, err := next()
		if err != nil {
			b.Fatal(err)
		}
		ids += n
	}
	return float64(ids) / time.Since(begin).Seconds()
}
