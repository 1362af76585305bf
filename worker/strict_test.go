package worker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/templates"
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

// issuer issues IDs of a tag.
type issuer func(ctx context.Context, tag string, n int64) ([]messages.Range, error)

// directly is a process's own way to its IDs, which HTTP takes.
func directly(t testing.TB, p *worker.Process) issuer {
	t.Helper()
	direct, err := p.Direct()
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, tag string, n int64) ([]messages.Range, error) {
		reply, err := direct.Segment(ctx, tag, messages.EncodeCount(n), false, "")
		if err != nil {
			return nil, err
		}
		return messages.DecodeRanges(reply, n)
	}
}

func (r *risingCalls) call(t testing.TB, issue issuer, tag string, n int64) {
	r.mu.Lock()
	floor := r.highest
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ranges, err := issue(ctx, tag, n)
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

func (r *risingCalls) run(t testing.TB, tag string, done <-chan struct{}, callers ...issuer) *sync.WaitGroup {
	var all sync.WaitGroup
	for i, issue := range callers {
		all.Go(func() {
			for n := int64(i); ; n++ {
				select {
				case <-done:
					return
				default:
					r.call(t, issue, tag, 1+n%7*n%3)
				}
			}
		})
	}
	return &all
}

// TestRefusedPrefetchCostsNoNumber: a strict tag begins at its first number,
// although a prefetcher was the first to use it, and was refused. That also holds
// for a tag that a template creates.
func TestRefusedPrefetchCostsNoNumber(t *testing.T) {
	t.Parallel()
	f := newFirstUses(t)
	f.template(templates.Template{Pattern: "invoice.*", Order: store.Strict})
	s := newStore(t, f.net, 1)
	createStrict(t, s, 10, "order")
	startWorker(t, f.net, worker.Config{Store: s, StoreName: "test"})
	for _, tag := range []string{"order", "invoice.2026"} {
		prefetcher, err := messages.NewClient(f.client.conn, messages.DefaultPrefix).Prefetch(tag, messages.PrefetchConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer prefetcher.Close()
		ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
		defer cancel()
		if id, err := prefetcher.Next(ctx); !errors.Is(err, messages.ErrStrict) {
			t.Errorf("prefetched %d of %s, %v, want %v", id, tag, err, messages.ErrStrict)
		}
		if id := f.client.must(tag); id != 1 {
			t.Errorf("%s begins at %d", tag, id)
		}
	}
}

// TestStrictOrderAcrossWorkers: on any of the workers, by NATS or by HTTP's way
// into one of them, a request's IDs are higher than all earlier answers, also
// while workers and loaders come and go.
func TestStrictOrderAcrossWorkers(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	createStrict(t, s, 100, "order", "invoice")
	start := func(role worker.Role) *worker.Process {
		return startWorker(t, net, worker.Config{Role: role, Store: s, StoreName: "test"})
	}
	processes := []*worker.Process{start(worker.RoleLoader), start(worker.RoleWorker), start(worker.RoleAll), start(worker.RoleWorker)}
	stays, done := start(worker.RoleWorker), make(chan struct{})
	var rising [2]risingCalls
	var all [2]*sync.WaitGroup
	for i, tag := range []string{"order", "invoice"} {
		callers := []issuer{directly(t, stays)}
		for range 4 {
			callers = append(callers, messages.NewClient(net.Connect(t), messages.DefaultPrefix).NextN)
		}
		all[i] = rising[i].run(t, tag, done, callers...)
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
