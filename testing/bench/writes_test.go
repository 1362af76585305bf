package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// Every worker wants a segment all the time: the step is far too small, and
// cannot grow. With the step policy there is a load every 15 minutes.
const (
	hotStep    = 4
	hotCallers = 4 // for each worker, each with a single request in flight
	hotLoaders = 2
	hotWrite   = 20 * time.Millisecond
	hotWarm    = time.Second
	hotRun     = 3 * time.Second
	hotBar     = 100 // store writes per second
)

// BenchmarkHotTagWrites is the table of store writes per second against
// workers.
func BenchmarkHotTagWrites(b *testing.B) {
	for workers := 1; workers <= 64; workers *= 2 {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			h := runHot(b, workers)
			rate := func(n int64) float64 { return float64(n) / h.took.Seconds() }
			b.ReportMetric(rate(h.writes), "writes/s")
			b.ReportMetric(rate(h.loads), "loads/s")
			b.ReportMetric(rate(h.requests), "requests/s")
			b.ReportMetric(0, "ns/op")
			table.add(row{
				what: fmt.Sprintf("store writes, a hot tag and workers: %d", workers), unit: "/s",
				subject: rate(h.writes), bar: atMost(hotBar),
				note: fmt.Sprintf("%d loaders, %v a write; %.0f loads/s, %.0f requests/s, none failed",
					hotLoaders, hotWrite, rate(h.loads), rate(h.requests)),
			})
		})
	}
}

// hot is the result of many workers that load the same tag.
type hot struct {
	took     time.Duration
	writes   int64 // of the store
	loads    int64 // which these writes served
	requests int64 // answered, each with an ID of its own
}

// runHot has workers, and loaders beside them, serve a tag under the maximum
// load. It fails the test if an ID comes twice or a request fails within a
// generous timeout.
func runHot(t testing.TB, workers int) hot {
	t.Helper()
	srv := natstest.Start(t)
	s := newSite(t, srv, worker.Config{MaxStep: hotStep, MaxBatch: 1}, nil) // a step that cannot grow
	s.create(store.Tag{Name: busyTag, Step: hotStep, Next: 1})
	slow := &slowStore{Reserver: s.register}
	s.cfg.Store = slow
	for range hotLoaders {
		s.mustStart(worker.RoleLoader)
	}
	for range workers {
		s.mustStart(worker.RoleWorker)
	}
	callers, conn := newCrowd(t), srv.Connect(t)
	for range workers * hotCallers {
		callers.addPlain(conn, 0, busyTag)
	}
	time.Sleep(hotWarm)
	start, before := time.Now(), slow.count(callers)
	time.Sleep(hotRun)
	h := slow.count(callers)
	h.took = time.Since(start)
	callers.finish()
	h.writes, h.loads, h.requests = h.writes-before.writes, h.loads-before.loads, h.requests-before.requests
	return h
}

// slowStore takes 20 ms longer for a write.
type slowStore struct {
	store.Reserver
	writes, ids atomic.Int64
}

func (s *slowStore) Reserve(ctx context.Context, tag string, wants []store.Want) (store.Reservation, error) {
	time.Sleep(hotWrite)
	s.writes.Add(1)
	s.ids.Add(store.Total(wants, store.Trend, hotStep))
	return s.Reserver.Reserve(ctx, tag, wants)
}

// count returns the figures so far.
func (s *slowStore) count(c *crowd) hot {
	return hot{writes: s.writes.Load(), loads: s.ids.Load() / hotStep, requests: int64(c.ids())}
}
