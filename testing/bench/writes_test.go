package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
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

	hotPatience = time.Minute
)

// BenchmarkHotTagWrites is the table of store writes per second against
// workers.
func BenchmarkHotTagWrites(b *testing.B) {
	for workers := 1; workers <= 64; workers *= 2 {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			h := runHot(b, workers, worker.Config{}.WithDefaults().Wait)
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
func runHot(t testing.TB, workers int, wait time.Duration) hot {
	t.Helper()
	srv := natstest.Start(t)
	js := controlJetStream(t, srv)
	slow := &slowStore{Store: openStore(t, js, messages.DefaultPrefix, store.Tag{Name: busyTag, Step: hotStep, Next: 1})}
	for range hotLoaders {
		startHot(t, srv, worker.Config{Role: worker.RoleLoader, Store: slow, Wait: wait})
	}
	for range workers {
		startHot(t, srv, worker.Config{Role: worker.RoleWorker, Wait: wait})
	}
	callers := &crowd{t: t, conn: srv.Connect(t), seen: make(map[string]bool)}
	ctx, cancel := context.WithCancel(t.Context())
	for range workers * hotCallers {
		callers.group.Go(func() { callers.call(ctx) })
	}
	time.Sleep(hotWarm)
	start, before := time.Now(), slow.count(callers)
	time.Sleep(hotRun)
	h := slow.count(callers)
	h.took = time.Since(start)
	cancel()
	callers.group.Wait()
	h.writes, h.loads, h.requests = h.writes-before.writes, h.loads-before.loads, h.requests-before.requests
	return h
}

// startHot starts a process whose step cannot grow.
func startHot(t testing.TB, srv *natstest.Node, cfg worker.Config) {
	t.Helper()
	cfg.Requests, cfg.Control = srv.Connect(t), srv.Connect(t)
	cfg.MaxStep, cfg.MaxBatch, cfg.Version = hotStep, 1, "0.0.0"
	w, err := startProcess(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// crowd is callers on a single connection.
type crowd struct {
	t     testing.TB
	conn  *nats.Conn
	group sync.WaitGroup

	failed atomic.Bool

	mu   sync.Mutex
	seen map[string]bool
}

// call sends sequential requests until ctx ends.
func (c *crowd) call(ctx context.Context) {
	for ctx.Err() == nil {
		reply, err := c.conn.Request(messages.DefaultPrefix.Segment(busyTag), nil, 2*hotPatience)
		if err == nil && reply.Header.Get(micro.ErrorCodeHeader) == "429" {
			continue // the host is overloaded
		}
		if err != nil || len(reply.Header) > 0 {
			if !c.failed.Swap(true) { // the first suffices
				c.t.Errorf("a request failed: %v, %+v", err, reply)
			}
			return
		}
		c.book(string(reply.Data))
	}
}

func (c *crowd) book(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[id] {
		c.t.Errorf("%s was handed out twice", id)
	}
	c.seen[id] = true
}

// slowStore takes 20 ms longer for a write.
type slowStore struct {
	store.Store
	writes, ids atomic.Int64
}

func (s *slowStore) Reserve(ctx context.Context, tag string, wants []store.Want) (store.Reservation, error) {
	time.Sleep(hotWrite)
	s.writes.Add(1)
	s.ids.Add(store.Total(wants, store.Trend, hotStep))
	return s.Store.Reserve(ctx, tag, wants)
}

// count returns the figures so far.
func (s *slowStore) count(c *crowd) hot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return hot{writes: s.writes.Load(), loads: s.ids.Load() / hotStep, requests: int64(len(c.seen))}
}
