package worker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker"
)

// risingCalls are calls of many callers, each of which must get higher IDs than
// all answers before it began.
type risingCalls struct {
	mu      sync.Mutex
	highest int64 // of all answers
	calls   int
}

func (r *risingCalls) call(t testing.TB, c *messages.Client, tag string, n int64) {
	r.mu.Lock()
	floor := r.highest
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ranges, err := c.NextN(ctx, tag, n)
	if err != nil {
		if !isPassing(err) {
			t.Errorf("%d IDs of %s: %v", n, tag, err)
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if ranges[0].First <= floor {
		t.Errorf("%s: got %v, after %d had been answered", tag, ranges, floor)
	}
	r.highest = max(r.highest, ranges[len(ranges)-1].Last)
}

func (r *risingCalls) answered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

func (r *risingCalls) run(t testing.TB, net network, tag string, callers int, done <-chan struct{}) *sync.WaitGroup {
	var all sync.WaitGroup
	for i := range callers {
		c := messages.NewClient(net.Connect(t), messages.DefaultPrefix)
		all.Go(func() {
			for n := int64(i); ; n++ {
				select {
				case <-done:
					return
				default:
					r.call(t, c, tag, 1+n%7*n%3)
				}
			}
		})
	}
	return &all
}

// TestStrictOrderAcrossWorkers: on any of three workers, a request's IDs are
// higher than all earlier answers, also while workers and loaders come and go.
func TestStrictOrderAcrossWorkers(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	createStrict(t, s, 100, "order", "invoice")
	start := func(role worker.Role) *worker.Process {
		return startWorker(t, net, worker.Config{Role: role, Store: s, StoreName: "test"})
	}
	processes := []*worker.Process{start(worker.RoleLoader), start(worker.RoleWorker), start(worker.RoleAll), start(worker.RoleWorker)}
	done := make(chan struct{})
	var rising [2]risingCalls
	var all [2]*sync.WaitGroup
	for i, tag := range []string{"order", "invoice"} {
		all[i] = rising[i].run(t, net, tag, 4, done)
	}
	awaitCalls := func() {
		t.Helper()
		for i := range rising {
			before := rising[i].answered()
			natstest.Eventually(t, "answers", func() bool { return rising[i].answered() > before+50 })
		}
	}
	for n := range tier.Pick(3, 20) {
		awaitCalls()
		processes = append(processes, start([]worker.Role{worker.RoleLoader, worker.RoleWorker, worker.RoleAll}[n%3]))
		stop(t, processes[0])
		processes = processes[1:]
	}
	awaitCalls()
	close(done)
	for i := range all {
		all[i].Wait()
		t.Logf("%d calls", rising[i].calls)
	}
}
