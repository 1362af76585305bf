package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

const (
	// Many short rounds, so that other processes disturb few of them.
	requestRounds = 45
	requestRound  = 500 * time.Millisecond

	rateBar = 0.90 // × the echo's
	tailBar = 1.25 // × the echo's p99.9
)

// The IDs start at firstID, so that all of them are as long as the echo's
// payload.
const (
	firstID = 100_000_000
	payload = "100000000"
	busyTag = "order"
)

// BenchmarkRequest measures a worker beside a bare echo service on the same
// server, from a caller's side. There are two workers: the first takes a new
// segment from its store several times a second, thousands of times as often as
// with a well-chosen step; the second has IDs for ever. The difference between
// the two is a refill's cost to requests that arrive during it.
func BenchmarkRequest(b *testing.B) {
	for _, c := range []struct {
		what     string
		inFlight int
		step     int64 // of the worker that refills
	}{
		{"one at a time", 1, 2_000},
		{"256 in flight", 256, 50_000},
	} {
		b.Run(fmt.Sprintf("inflight=%d", c.inFlight), func(b *testing.B) {
			benchmarkRequest(b, c.what, c.inFlight, c.step)
		})
	}
}

func benchmarkRequest(b *testing.B, what string, inFlight int, step int64) {
	// The folder's file system has to have a disk for this to mean anything.
	srv := natstest.Start(b, syncAlways)
	startEcho(b, srv, "echo")
	_, refills := startWorker(b, srv, "many", step, 1)
	_, none := startWorker(b, srv, "none", 1<<33, 1)

	call := newCaller(b, srv.Connect(b), inFlight)
	side := func(prefix messages.Prefix) func() measured {
		return func() measured { return call.round(b, prefix.Segment(busyTag), requestRound) }
	}
	figures := inTurns(requestRounds, side("echo"), side("many"), side("none"))
	echo, many, calm := figures[0], figures[1], figures[2]
	if refills.Load() < requestRounds/3 {
		b.Errorf("%d refills in %d rounds, which says nothing about refills", refills.Load(), requestRounds)
	}

	refilled := fmt.Sprintf("%d refills in %v", refills.Load(), requestRounds*requestRound)
	add := func(field func(measured) float64, metric, unit string, bar bar) {
		ratio := medianRatio(column(many, field), column(echo, field))
		b.ReportMetric(ratio, metric+"/echo")
		table.add(row{
			what: "request, " + what + ": " + metric, unit: unit, beside: "echo", ratio: ratio, bar: bar, note: refilled,
			subject: median(column(many, field)), baseline: median(column(echo, field)),
		})
	}
	beside := func(field func(measured) float64, metric, unit string) {
		table.add(row{
			what: "request, " + what + ": " + metric, unit: unit, beside: "worker without refills",
			ratio:   medianRatio(column(many, field), column(calm, field)),
			subject: median(column(many, field)), baseline: median(column(calm, field)),
			note: fmt.Sprintf("which has %.2f × the echo's", medianRatio(column(calm, field), column(echo, field))),
		})
	}
	rate := func(m measured) float64 { return m.rate }
	p999 := func(m measured) float64 { return m.p999 }
	add(rate, "throughput", "/s", atLeast(rateBar))
	add(func(m measured) float64 { return m.p50 }, "p50", "µs", bar{})
	add(func(m measured) float64 { return m.p99 }, "p99", "µs", bar{})
	add(p999, "p99.9", "µs", atMost(tailBar))
	add(func(m measured) float64 { return m.allocs }, "allocations", "each", bar{})
	beside(rate, "throughput", "/s")
	beside(p999, "p99.9", "µs")
	b.ReportMetric(float64(refills.Load()), "refills")
	b.ReportMetric(float64(none.Load()), "refills-none")
	b.ReportMetric(0, "ns/op")
}

// startEcho runs the plainest service that NATS' services API allows: in a
// queue group, on a subject with a wildcard, answering with as many bytes as an
// ID has.
func startEcho(b *testing.B, srv connector, prefix messages.Prefix) {
	b.Helper()
	reply := []byte(payload)
	service, err := micro.AddService(srv.Connect(b), micro.Config{
		Name: "echo", Version: "0.0.0", QueueGroup: prefix.QueueGroup(),
		Endpoint: &micro.EndpointConfig{
			Subject: prefix.Segment(">"),
			Handler: micro.HandlerFunc(func(req micro.Request) { _ = req.Respond(reply) }),
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = service.Stop() })
}

// startWorker runs a worker with the register and a tag whose step does not grow,
// and counts its calls of the store.
func startWorker(b *testing.B, srv connector, prefix messages.Prefix, step, maxBatch int64) (w *worker.Process, refills *atomic.Int64) {
	b.Helper()
	s := newSite(b, srv, worker.Config{Prefix: prefix, MaxBatch: maxBatch, MaxStep: step}, nil)
	s.create(store.Tag{Name: busyTag, Step: step, Next: firstID})
	counted := &busyStore{Reserver: s.register}
	s.cfg.Store = counted
	return s.mustStart(worker.RoleAll), &counted.calls
}

// busyStore counts reservations and adds up their durations.
type busyStore struct {
	store.Reserver
	calls, busy atomic.Int64
}

func (s *busyStore) Reserve(ctx context.Context, tag string, wants []store.Want) (store.Reservation, error) {
	began := time.Now()
	defer func() {
		s.calls.Add(1)
		s.busy.Add(int64(time.Since(began)))
	}()
	return s.Reserver.Reserve(ctx, tag, wants)
}
