package e2e

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

func syncAlways(o *server.Options) { o.SyncAlways = true }

// services use the Go client, each with a call at a time, and must never get an
// error: some request single IDs, one takes them from a prefetcher, two request
// snowflake IDs.
type services struct {
	t      testing.TB
	ledger ledger
	stop   atomic.Bool
	wg     sync.WaitGroup
	single atomic.Int64 // IDs requested singly

	snowflakes snowflakes
}

// snowflakes are all snowflake IDs that were handed out, which are too far
// apart for a ledger.
type snowflakes struct {
	mu     sync.Mutex
	ranges []messages.Range
}

func (s *snowflakes) add(ranges []messages.Range) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ranges = append(s.ranges, ranges...)
}

func (s *snowflakes) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ranges)
}

// check fails the test if an ID was handed out twice, or all come from the same
// worker.
func (s *snowflakes) check(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.ranges, func(a, b messages.Range) int { return cmp.Compare(a.First, b.First) })
	workers := make(map[int64]int)
	for i, r := range s.ranges {
		workers[snowflake.Default().WorkerID(snowflake.ID(r.First))]++
		if i > 0 && r.First <= s.ranges[i-1].Last {
			t.Errorf("DUPLICATE: snowflake IDs %v and %v", s.ranges[i-1], r)
		}
	}
	if len(workers) < 2 {
		t.Errorf("snowflake IDs of the workers %v, want several", workers)
	}
	t.Logf("ranges of snowflake IDs by worker: %v", workers)
}

// snowflakesAtOnce is the number of snowflake IDs in a service's request.
const snowflakesAtOnce = 20

func startServices(t testing.TB, url, tag string, n int, opts ...nats.Option) *services {
	t.Helper()
	s := &services{t: t, ledger: ledger{tag: tag}}
	newClient := func() *messages.Client { return messages.NewClient(connect(t, url, opts...), messages.DefaultPrefix) }
	for range n {
		client := newClient()
		s.wg.Go(func() {
			s.run(func(ctx context.Context) (int64, error) { return client.Next(ctx, tag) }, func() { s.single.Add(1); time.Sleep(pace) })
		})
	}
	for range 2 {
		client := newClient()
		s.wg.Go(func() {
			s.run(func(ctx context.Context) (int64, error) {
				ranges, err := client.SnowflakeN(ctx, snowflakesAtOnce)
				if err != nil {
					return 0, err
				}
				s.snowflakes.add(ranges)
				return 0, nil
			}, func() { time.Sleep(pace) })
		})
	}
	// Small buffers, so that a worker's failure shows at once.
	p, err := newClient().Prefetch(tag, messages.PrefetchConfig{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	s.wg.Go(func() { s.run(p.Next, func() { time.Sleep(pace) }) })
	t.Cleanup(func() { s.finish(); p.Close() })
	return s
}

// run calls next until stopped, and after each call after. An ID of 0 is none
// of the tag's.
func (s *services) run(next func(context.Context) (int64, error), after func()) {
	for !s.stop.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), natstest.Patience)
		id, err := next(ctx)
		cancel()
		if err != nil {
			s.t.Errorf("a call of the Go client: %v", err)
			return
		}
		if id > 0 {
			s.ledger.add([]messages.Range{{First: id, Last: id}})
		}
		after()
	}
}

// more returns when that many more single IDs have been handed out, and some
// snowflake IDs.
func (s *services) more(n int64) {
	s.t.Helper()
	target, snowflakes := s.single.Load()+n, s.snowflakes.len()+int(n/10)
	natstest.Eventually(s.t, "the Go client gets IDs", func() bool {
		return s.single.Load() >= target && s.snowflakes.len() >= snowflakes || s.t.Failed()
	})
}

func (s *services) finish() {
	s.stop.Store(true)
	s.wg.Wait()
}

// TestRollingRestartLosesNothing restarts two workers in turn by SIGTERM:
// callers that retry only when a worker orders it lose no request. Then the
// workers are killed, paused and away, and the Go client hides all of it from
// its callers.
func TestRollingRestartLosesNothing(t *testing.T) {
	t.Parallel()
	tags := []string{"order", "invoice"}
	url := natstest.Start(t, syncAlways).URL()
	// A small batch makes prefetchers discover the workers' limit.
	join := func() *process { return startWorker(t, url, "--max-batch", "300") }
	workers := []*process{join(), join()}
	for _, tag := range append(tags, "service") {
		must(t, "tag", "create", "--server", url, tag, "--step", "1000")
		heldByAll(t, url, tag, len(workers))
	}
	services := startServices(t, url, "service", 3)

	all := newLedgers(tags)
	t.Run("by TERM", func(t *testing.T) {
		c := startCallers(t, url, load{callers: 4, tags: tags, maxBatch: 300, into: all})
		for range tier.Pick(2, 10) {
			for i, old := range workers {
				old.stop(syscall.SIGTERM)
				workers[i] = join()
				c.more(100) // the other stops only when callers have seen this worker
				services.more(20)
			}
		}
		c.finish()
		all.check(t)
		t.Logf("%d IDs", all.ids())
	})
	t.Run("killed", func(t *testing.T) {
		// Requests to the killed worker are lost, and repeated.
		c := startCallers(t, url, load{callers: 4, tags: tags, maxBatch: 300, into: all, retry: lost, timeout: askAgain})
		for i, old := range workers {
			c.more(100)
			old.kill()
			workers[i] = join()
			services.more(50)
		}
		c.more(100)
		c.finish()
		all.check(t)
	})
	t.Run("paused", func(*testing.T) {
		third := join() // a paused worker is a paused loader, too
		for range 2 {
			workers[0].pause()
			services.more(200)
			workers[0].resume()
			services.more(200) // with the paused worker's late answers
		}
		third.stop(syscall.SIGTERM)
	})
	t.Run("nobody there", func(*testing.T) {
		for i, w := range workers {
			if i == 0 {
				w.stop(syscall.SIGTERM)
			} else {
				w.kill()
			}
		}
		workers = []*process{join()}
		services.more(50)
	})
	services.finish()
	services.ledger.check(t)
	services.snowflakes.check(t)
	t.Run("get waits", func(t *testing.T) { getWaits(t, url, workers[0]) })
}

// TestFrozenWorkerFailsNoCall: one of two workers is frozen for 18 s, longer than
// the server keeps sending requests to it. No call of 5 s fails.
func TestFrozenWorkerFailsNoCall(t *testing.T) {
	tier.Soak(t) // a slow machine fails calls, too
	const callers, frozen = 50, 18 * time.Second
	host := startServer(t, t.TempDir(), "--role", "loader")
	workers := []*process{startWorker(t, host.url, "--role", "worker"), startWorker(t, host.url, "--role", "worker")}
	createTag(t, host.url, "order", "--step", "100000")
	heldByAll(t, host.url, "order", len(workers))
	client := messages.NewClient(connect(t, host.url), messages.DefaultPrefix)
	all := ledger{tag: "order"}
	var calls, slow atomic.Int64
	var wg sync.WaitGroup
	workers[0].pause()
	ended := time.Now().Add(frozen)
	for range callers {
		wg.Go(func() {
			for time.Now().Before(ended) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				began := time.Now()
				id, err := client.Next(ctx, "order")
				cancel()
				if calls.Add(1); err != nil {
					t.Error(err)
					continue
				}
				if time.Since(began) > time.Second {
					slow.Add(1)
				}
				all.add([]messages.Range{{First: id, Last: id}})
			}
		})
	}
	wg.Wait()
	workers[0].resume()
	all.check(t)
	t.Logf("%d calls, %d took longer than 1 s", calls.Load(), slow.Load())
}

// getWaits runs get while the only worker is paused: get retries beyond the
// second after which it gives up if there are no workers at all.
func getWaits(t *testing.T, url string, worker *process) {
	conn := connect(t, url)
	var requests atomic.Int64
	if _, err := conn.Subscribe("ids.segment.order", func(*nats.Msg) { requests.Add(1) }); err != nil {
		t.Fatal(err)
	}
	flush(t, conn)
	worker.pause()
	defer worker.resume()
	r := run(t, "get", "--server", url, "--timeout", "1500ms", "order")
	if r.code != exitTryLater || !strings.Contains(r.stderr, "ids.segment.order") || !strings.Contains(r.stderr, "deadline") {
		t.Errorf("get of a paused worker: %+v", r)
	}
	before := requests.Load()
	get := settings{}.launch(t, "get", "--server", url, "--timeout", natstest.Patience.String(), "order")
	natstest.Eventually(t, "get asks again and again", func() bool { return requests.Load() > before+8 })
	worker.resume()
	if code := get.wait(); code != exitOK {
		t.Errorf("exit code %d: %s", code, get.stderr.String())
	}
	if n := len(ids(t, result{stdout: get.stdout.String()})); n != 1 {
		t.Errorf("%d IDs", n)
	}
}
