package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/proxy"
	"github.com/idworker/idworker/worker"
)

const (
	coalesceRounds = 9
	coalesceRound  = 200 * time.Millisecond

	linkDelay = 5 * time.Millisecond // each way

	gainTailBar = 1    // × the p99 apart, where calls gain by travelling together
	evenTailBar = 1.25 // × the p99 apart, where they do not; it is noisy
	workerBar   = 0.25 // × the worker's CPU time of an ID apart
)

// BenchmarkCoalesce measures single calls of many callers of a client, on one
// connection and for one tag. Calls of Next travel together while a request is
// out. The baseline is NextN of 1, whose calls travel apart.
func BenchmarkCoalesce(b *testing.B) {
	for _, c := range []struct {
		what    string
		connect func(*testing.B) *nats.Conn
		perCall bool // each call has a time-out of its own
		gains   bool
		bars    map[int]float64 // throughput, × that apart, by number of callers
	}{
		{"shared context", toWorker(worker.DefaultMaxBatch), false, true, map[int]float64{1: 0.95, 16: 2.4, 256: 6, 1024: 6}},
		{"time-out per call", toWorker(worker.DefaultMaxBatch), true, true, map[int]float64{1: 0.95, 256: 3.5}},
		{"strict tag", toStrict(), false, true, map[int]float64{1: 0.95, 16: 4.5}},
		{"strict tag, synced", toStrict(syncAlways), false, true, map[int]float64{16: 1.1}},
		{"10 ms away", toDistant, false, false, map[int]float64{1: 0.9, 2: 0.9, 16: 0.9, 256: 0.9, 1024: 0.9}},
		{"--max-batch 1", toWorker(1), false, false, map[int]float64{1: 0.9, 2: 0.9, 16: 0.9, 256: 0.9, 1024: 0.9}},
	} {
		b.Run(c.what, func(b *testing.B) {
			client := messages.NewClient(c.connect(b), messages.DefaultPrefix)
			for _, callers := range []int{1, 2, 16, 256, 1024} {
				b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
					rateBar, tailBar := bar{}, atMost(evenTailBar)
					if limit, ok := c.bars[callers]; ok {
						rateBar = atLeast(limit)
					}
					if c.gains && callers >= 16 {
						tailBar = atMost(gainTailBar)
					}
					benchmarkCoalesce(b, client, c.what, callers, c.perCall, rateBar, tailBar)
				})
			}
		})
	}
	b.Run("worker's CPU", benchmarkWorkersCPU)
}

func benchmarkCoalesce(b *testing.B, client *messages.Client, what string, callers int, perCall bool, rateBar, tailBar bar) {
	figures := inTurns(coalesceRounds, singles(b, callers, perCall, together(client)), singles(b, callers, perCall, apart(client)))
	add := func(metric, unit string, field func(measured) float64, bar bar) {
		of := func(side int) []float64 { return column(figures[side], field) }
		ratio := medianRatio(of(0), of(1))
		b.ReportMetric(ratio, metric+"/apart")
		table.add(row{
			what: fmt.Sprintf("single calls, %s, callers: %d: %s", what, callers, metric), unit: unit, beside: "apart",
			ratio: ratio, bar: bar, subject: median(of(0)), baseline: median(of(1)),
		})
	}
	add("throughput", "/s", func(m measured) float64 { return m.rate }, rateBar)
	add("p99", "µs", func(m measured) float64 { return m.p99 }, tailBar)
	for side, name := range []string{"allocs", "allocs-apart"} {
		b.ReportMetric(median(column(figures[side], func(m measured) float64 { return m.allocs })), name)
	}
	b.ReportMetric(0, "ns/op")
}

// call requests a single ID.
type call func(ctx context.Context) error

func together(client *messages.Client) call {
	return func(ctx context.Context) error {
		_, err := client.Next(ctx, busyTag)
		return err
	}
}

func apart(client *messages.Client) call {
	return func(ctx context.Context) error {
		_, err := client.NextN(ctx, busyTag, 1)
		return err
	}
}

// singles measures a round of callers, each with a call at a time.
func singles(b *testing.B, callers int, perCall bool, call call) func() measured {
	b.Helper()
	one := func() error { return call(b.Context()) }
	if perCall {
		one = func() error {
			ctx, cancel := context.WithTimeout(b.Context(), natstest.Patience)
			defer cancel()
			return call(ctx)
		}
	}
	took := make([][]time.Duration, callers)
	return func() measured {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var group sync.WaitGroup
		began := time.Now()
		for i := range took {
			group.Go(func() {
				took[i] = took[i][:0]
				for sent := began; sent.Sub(began) < coalesceRound; {
					if err := one(); err != nil {
						b.Error(err)
						return
					}
					now := time.Now()
					took[i] = append(took[i], now.Sub(sent))
					sent = now
				}
			})
		}
		group.Wait()
		all := time.Since(began)
		runtime.ReadMemStats(&after)
		each := slices.Concat(took...)
		m := measure(each, all)
		m.allocs = float64(after.Mallocs-before.Mallocs) / float64(len(each))
		return m
	}
}

// toWorker connects to the server of a worker that has IDs for ever.
func toWorker(maxBatch int64) func(*testing.B) *nats.Conn {
	return func(b *testing.B) *nats.Conn {
		srv := natstest.Start(b)
		startWorker(b, srv, messages.DefaultPrefix, 1<<33, maxBatch)
		return srv.Connect(b)
	}
}

// toDistant is toWorker over a slow link.
func toDistant(b *testing.B) *nats.Conn {
	srv := natstest.Start(b)
	startWorker(b, srv, messages.DefaultPrefix, 1<<33, worker.DefaultMaxBatch)
	link := proxy.Start(b, srv.URL())
	nc, err := nats.Connect(link.URL())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	link.Delay(linkDelay, 0)
	return nc
}

// toStrict connects to the server of workers and loaders with a strict tag.
func toStrict(opts ...func(*server.Options)) func(*testing.B) *nats.Conn {
	return func(b *testing.B) *nats.Conn {
		srv := natstest.Start(b, opts...)
		startStrict(b, srv, nil, 1)
		return srv.Connect(b)
	}
}

// benchmarkWorkersCPU measures the CPU time of an ID in two workers, processes
// of their own: one answers calls together, the other calls apart. Their starts
// count, too, and weigh more for the first, which has less to do.
func benchmarkWorkersCPU(b *testing.B) {
	const callers = 256
	srv := natstest.Start(b)
	binary, err := process.Build(b.TempDir(), "idworker", process.Command)
	if err != nil {
		b.Fatal(err)
	}
	var ids [2]float64
	start := func(side int, prefix messages.Prefix, as func(*messages.Client) call) (*process.Running, func() measured) {
		newSite(b, srv, worker.Config{Prefix: prefix}, nil).create(store.Tag{Name: busyTag, Step: 1_000_000, Next: firstID})
		w := process.Program{Binary: binary}.Start(b, "serve", "--server", srv.URL(), "--prefix", string(prefix))
		w.AwaitLog(b, "\tserving\t")
		round := singles(b, callers, false, as(messages.NewClient(srv.Connect(b), prefix)))
		return w, func() measured {
			m := round()
			ids[side] += m.rate * coalesceRound.Seconds()
			return m
		}
	}
	one, roundTogether := start(0, "together", together)
	other, roundApart := start(1, "apart", apart)
	figures := inTurns(coalesceRounds, roundTogether, roundApart)

	var cpu [2]float64
	for side, w := range []*process.Running{one, other} {
		w.Stop(b)
		used := w.Cmd.ProcessState
		cpu[side] = micros(used.UserTime()+used.SystemTime()) / ids[side]
	}
	rate := func(m measured) float64 { return m.rate }
	faster := medianRatio(column(figures[0], rate), column(figures[1], rate))
	b.ReportMetric(cpu[0]/cpu[1], "CPU/apart")
	b.ReportMetric(faster, "throughput/apart")
	b.ReportMetric(0, "ns/op")
	table.add(row{
		what: fmt.Sprintf("single calls, shared context, callers: %d: worker's CPU per ID", callers), unit: "µs", beside: "apart",
		ratio: cpu[0] / cpu[1], bar: atMost(workerBar), subject: cpu[0], baseline: cpu[1],
		note: fmt.Sprintf("%.2f × the throughput, with a worker in a process of its own", faster),
	})
}
