package e2e

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// patience is how long a call of the Go client may take in these tests, in which
// workers are away for up to two seconds.
const patience = 5 * time.Second

// services use the Go client, each one call at a time, and must never get an error: some
// ask for single IDs, one takes them from a prefetcher.
type services struct {
	t      testing.TB
	ledger ledger
	stop   atomic.Bool
	wg     sync.WaitGroup

	mu   sync.Mutex
	took []time.Duration // the calls that asked for single IDs
}

// prefetchPause keeps the prefetching service from using up the machine.
const prefetchPause = time.Millisecond

func startServices(t testing.TB, url, tag string, n int) *services {
	t.Helper()
	s := &services{t: t, ledger: ledger{tag: tag}}
	newClient := func() *messages.Client { return messages.NewClient(connect(t, url), messages.DefaultPrefix) }
	for range n {
		client := newClient()
		s.wg.Go(func() {
			s.run(func(ctx context.Context) (int64, error) { return client.Next(ctx, tag) }, s.recordLatency)
		})
	}
	// Few IDs in memory, so that it notices what happens to the workers.
	p, err := newClient().Prefetch(tag, messages.PrefetchConfig{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	s.wg.Go(func() { s.run(p.Next, func(time.Duration) { time.Sleep(prefetchPause) }) })
	t.Cleanup(func() { s.finish(); p.Close() })
	return s
}

// run calls next until stopped, and after each call after, with the time that it took.
func (s *services) run(next func(context.Context) (int64, error), after func(time.Duration)) {
	for !s.stop.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		sent := time.Now()
		id, err := next(ctx)
		cancel()
		if err != nil {
			s.t.Errorf("after %v: %v", time.Since(sent), err)
			return
		}
		after(time.Since(sent))
		s.ledger.add([]messages.Range{{First: id, Last: id}})
	}
}

func (s *services) recordLatency(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, took)
}

// more returns when that many more single IDs have been handed out.
func (s *services) more(n int) {
	s.t.Helper()
	calls := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.took)
	}
	target := calls() + n
	natstest.Eventually(s.t, "IDs are handed out", func() bool { return calls() >= target || s.t.Failed() })
}

// lap logs what calls took since the last lap.
func (s *services) lap(what string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.took)
	at := func(p float64) time.Duration {
		return s.took[int(p*float64(len(s.took)-1))].Round(10 * time.Microsecond)
	}
	s.t.Logf("%s: %d calls, p50 %v, p99 %v, max %v", what, len(s.took), at(0.5), at(0.99), at(1))
	s.took = nil
}

func (s *services) finish() {
	s.stop.Store(true)
	s.wg.Wait()
}

// startWorkers starts that many workers, all of which know the tag.
func startWorkers(t *testing.T, n int, tag, step string) (url string, workers []*process) {
	t.Helper()
	url = natstest.Start(t, syncAlways).URL()
	for range n {
		workers = append(workers, startWorker(t, url, workerBatch...))
	}
	must(t, "tag", "create", "--server", url, tag, "--step", step)
	knownToAll(t, url, tag, n)
	return url, workers
}

// workerBatch makes prefetchers find out what workers allow.
var workerBatch = []string{"--max-batch", "300"}

// TestClientSeesNoRestart restarts two workers in turn, by TERM and by KILL.
func TestClientSeesNoRestart(t *testing.T) {
	t.Parallel()
	rounds := tier.Pick(2, 4)
	url, workers := startWorkers(t, 2, "order", "100")
	s := startServices(t, url, "order", 4)
	s.more(500)
	s.lap("calm")
	for round := range rounds {
		for i, old := range workers {
			if round%2 == 0 {
				old.stop(syscall.SIGTERM)
			} else {
				old.kill()
			}
			workers[i] = startWorker(t, url, workerBatch...)
			s.more(50)
		}
	}
	s.lap("restarts")
	s.finish()
	s.ledger.check(t)
}

// TestClientSeesNoPause pauses one of three workers, which the server goes on sending
// requests to. Steps are as large as they should be: a paused worker is a paused loader
// too, and no client can make up for that.
func TestClientSeesNoPause(t *testing.T) {
	t.Parallel()
	url, workers := startWorkers(t, 3, "order", "1000000")
	s := startServices(t, url, "order", 4)
	s.more(500)
	s.lap("calm")
	for range 2 {
		workers[0].pause()
		s.more(500)
		s.lap("one of three paused")
		workers[0].resume()
		s.more(500) // with what the paused one answers late
	}
	s.finish()
	s.ledger.check(t)
}

// TestClientWaitsForWorkers has no workers for two seconds, once in each test: a call that
// is still in its pause would otherwise run into the next such time, too.
func TestClientWaitsForWorkers(t *testing.T) {
	t.Parallel()
	const away = 2 * time.Second
	for name, end := range map[string]func(*process){
		"killed":  (*process).kill,
		"stopped": func(p *process) { p.stop(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, workers := startWorkers(t, 1, "order", "100")
			s := startServices(t, url, "order", 4)
			s.more(500)
			s.lap("calm")
			gone := time.Now() // it leaves the queue group first, and then takes its time
			end(workers[0])
			time.Sleep(time.Until(gone.Add(away))) // how long nobody is there is the point
			startWorker(t, url, workerBatch...)
			back := time.Since(gone)
			s.more(500)
			s.finish() // with the calls that are still in their pause
			s.lap("nobody for " + back.Round(time.Millisecond).String())
			s.ledger.check(t)
		})
	}
}

// TestGetWaits runs get while the only worker is paused: get goes on asking beyond the
// second after which it gives up if there are no workers at all.
func TestGetWaits(t *testing.T) {
	t.Parallel()
	url, workers := startWorkers(t, 1, "order", "100")
	conn := connect(t, url)
	var requests atomic.Int64
	if _, err := conn.Subscribe("ids.segment.order", func(*nats.Msg) { requests.Add(1) }); err != nil {
		t.Fatal(err)
	}
	flush(t, conn)
	workers[0].pause()
	get := settings{}.launch(t, "get", "--server", url, "--timeout", "30s", "order")
	natstest.Eventually(t, "get asks for more than a second", func() bool { return requests.Load() > 8 })
	workers[0].resume()
	if code := get.wait(); code != exitOK {
		t.Errorf("exit code %d: %s", code, get.stderr.String())
	}
	if n := len(ids(t, result{stdout: get.stdout.String()})); n != 1 {
		t.Errorf("%d IDs", n)
	}

	workers[0].pause()
	r := run(t, "get", "--server", url, "--timeout", "1500ms", "order")
	if r.code != exitTryLater || !strings.Contains(r.stderr, "ids.segment.order") || !strings.Contains(r.stderr, "deadline") {
		t.Errorf("get of a paused worker: %+v", r)
	}
	t.Log(r.stderr)
}
