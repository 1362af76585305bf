package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/storetest"
	"github.com/idworker/idworker/worker"
)

const (
	coldInFlight = 8000            // requests
	coldConns    = 4               // which they share
	coldRepeat   = 2 * time.Second // then a request is sent again
	coldPerTag   = 1.1             // calls of the store
	coldTimes    = 1.3             // × the store's time alone
	coldWarm     = 20              // ms, p99.9 of a tag with IDs in memory
	coldLimit    = 10 * time.Minute

	coldReference = 4000 // reservations, at most, to measure the store alone
)

// BenchmarkColdStart measures that time, beside the store alone, and the
// latency of requests for another tag during it.
func BenchmarkColdStart(b *testing.B) {
	for _, tags := range []int{20_000, 100_000} {
		for name, open := range coldStores {
			b.Run(fmt.Sprintf("%s/tags=%d", name, tags), func(b *testing.B) {
				c := runCold(b, tags, coldTurns[name], open)
				ratio := c.took.Seconds() * c.rate / float64(tags)
				b.ReportMetric(ratio, "×store")
				b.ReportMetric(float64(c.calls)/float64(tags), "calls/tag")
				b.ReportMetric(c.warm, "ms-warm-p99.9")
				b.ReportMetric(0, "ns/op")
				what := fmt.Sprintf("cold start, %d tags, %s: ", tags, name)
				table.add(
					row{what: what + "time", unit: "s", subject: c.took.Seconds(), baseline: float64(tags) / c.rate,
						beside: "store alone", ratio: ratio, bar: atMost(coldTimes), note: fmt.Sprintf("%.2f calls per tag, %.0f of %d under way", float64(c.calls)/float64(tags), c.turns, coldTurns[name])},
					row{what: what + "p99.9 of a warm tag", unit: "ms", subject: c.warm, bar: atMost(coldWarm)},
				)
			})
		}
	}
}

// cold is the result of a round.
type cold struct {
	took  time.Duration
	calls int64   // of the store
	rate  float64 // of reservations by the store alone, per second
	turns float64 // calls in flight, on average; the maximum if the store is the bottleneck
	warm  float64 // p99.9 of requests for a warm tag, ms
}

// coldStep is the step of a tag. The last tag is warm, and stays warm.
func coldStep(n, tags int) int64 {
	if n == tags-1 {
		return 1_000_000
	}
	return 1000
}

// coldTurns is how many reservations a loader has under way, as in a process
// with that store.
var coldTurns = map[string]int{"jetstream": worker.DefaultReservations, "mysql": 16}

func coldTag(n int) string { return fmt.Sprintf("cold%d", n) }

// coldStores are sites with tags.
var coldStores = map[string]func(t testing.TB, srv *natstest.Node, tags int) *site{
	"jetstream": func(t testing.TB, srv *natstest.Node, tags int) *site {
		s := newSite(t, srv, worker.Config{}, nil)
		inParallel(tags, func(n int) {
			coldCheck(t, s.register.CreateTag(context.Background(), store.Tag{Name: coldTag(n), Step: coldStep(n, tags), Next: 1}))
		})
		return s
	},
	"mysql": func(t testing.TB, srv *natstest.Node, tags int) *site {
		db := dbtest.MySQL(t)
		table := openTable(t, db)
		for from := 0; from < tags; from += 1000 {
			var rows []string
			for n := from; n < min(tags, from+1000); n++ {
				rows = append(rows, fmt.Sprintf("('%s', 1, %d)", coldTag(n), coldStep(n, tags)))
			}
			db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES "+strings.Join(rows, ","))
		}
		return newSite(t, srv, worker.Config{}, table)
	},
}

func coldCheck(t testing.TB, err error) {
	if err != nil {
		t.Error(err)
		panic(err)
	}
}

// runCold fails the test if the store is called more often than it should.
func runCold(t testing.TB, tags, turns int, open func(testing.TB, *natstest.Node, int) *site) (c cold) {
	t.Helper()
	references := min(coldReference, tags)
	var options *server.Options
	srv := natstest.Start(t, func(o *server.Options) { o.JetStreamMaxStore = 8 << 30; options = o })
	home := open(t, srv, tags+references+1)
	s := &busyStore{Reserver: home.register}
	home.cfg.Store, home.cfg.Reservations = s, turns
	_, err := worker.Provision(t.Context(), worker.Config{JetStream: home.js})
	coldCheck(t, err)
	options.SyncAlways = true // from here on
	srv.Restart()
	natstest.Eventually(t, "the connection of the store", home.js.Conn().IsConnected)

	// The tags behind the last are for the reference; the very last is the warm
	// tag.
	reference := func(from int) float64 {
		began := time.Now()
		inParallel(references/2, func(n int) {
			_, err := storetest.Reserve(context.Background(), s, coldTag(tags+from+n), 1000)
			coldCheck(t, err)
		})
		return coldReference / 2 / time.Since(began).Seconds()
	}
	before := reference(0)
	home.mustStart(worker.RoleAll)
	stopWarm := keepWarm(t, srv.Connect(t), coldTag(tags+references))
	called, busy := s.calls.Load(), s.busy.Load()
	c.took = askForAll(t, srv, tags)
	c.calls = s.calls.Load() - called
	c.turns = float64(s.busy.Load()-busy) / float64(c.took)
	c.warm = stopWarm()
	c.rate = (before + reference(references/2)) / 2
	t.Logf("%d tags in %v, %.0f/s; the store alone %.0f/s; %d calls, %.1f under way of %d; warm p99.9 %.1f ms",
		tags, c.took, float64(tags)/c.took.Seconds(), c.rate, c.calls, c.turns, turns, c.warm)
	if most := coldPerTag * float64(tags); float64(c.calls) > most {
		t.Errorf("%d calls of the store for %d tags, want at most %.0f", c.calls, tags, most)
	}
	return c
}

// inParallel calls f with 0 to n−1, as many at a time as a loader has turns.
func inParallel(n int, f func(int)) {
	var group sync.WaitGroup
	var next atomic.Int64
	for range worker.DefaultReservations {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	group.Wait()
}

// askForAll requests an ID of each tag until it is answered, and returns the
// time that took.
func askForAll(t testing.TB, srv *natstest.Node, tags int) time.Duration {
	var conns []*nats.Conn
	for range coldConns {
		conns = append(conns, srv.Connect(t))
	}
	began := time.Now()
	var next atomic.Int64
	var group sync.WaitGroup
	for i := range coldInFlight {
		group.Go(func() {
			for n := int(next.Add(1)) - 1; n < tags; n = int(next.Add(1)) - 1 {
				for !answeredOnce(conns[i%coldConns], coldTag(n)) {
					if time.Since(began) > coldLimit {
						t.Errorf("%s is not answered", coldTag(n))
						return
					}
				}
			}
		})
	}
	group.Wait()
	return time.Since(began)
}

func answeredOnce(conn *nats.Conn, tag string) bool {
	reply, err := conn.Request(messages.DefaultPrefix.Segment(tag), nil, coldRepeat)
	return err == nil && len(reply.Header) == 0
}

// keepWarm requests a tag continuously, each request after the last answer. The
// returned function ends that, and returns the p99.9 in milliseconds.
func keepWarm(t testing.TB, conn *nats.Conn, tag string) (stop func() float64) {
	for !answeredOnce(conn, tag) {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Second) // and the next segment is there
	ctx, cancel := context.WithCancel(t.Context())
	var took []time.Duration
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			reply, err := conn.Request(messages.DefaultPrefix.Segment(tag), nil, coldRepeat)
			if err != nil || len(reply.Header) > 0 {
				t.Errorf("a request for the warm tag: %v, %+v", err, reply)
			}
			took = append(took, time.Since(began))
			time.Sleep(time.Millisecond)
		}
	})
	return func() float64 {
		cancel()
		group.Wait()
		slices.Sort(took)
		return micros(percentile(took, 0.999)) / 1000
	}
}
