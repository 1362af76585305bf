package worker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker"
)

// ownerLease is T in tests. The shorter it is, the sooner a new owner may answer.
const ownerLease = time.Second

// createStrict creates strict tags: the rule first, as the command line does, but without asking
// workers, which there should not be yet.
func createStrict(t testing.TB, net network, s store.Store, step int64, names ...string) {
	t.Helper()
	setOrder(t, net, tagrules.Strict, names...)
	createTags(t, net, s, step, names...)
}

func setOrder(t testing.TB, net network, order tagrules.Order, names ...string) {
	t.Helper()
	editor, err := tagrules.OpenEditor(t.Context(), newJetStream(t, net), messages.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := editor.SetOrder(t.Context(), name, order); err != nil {
			t.Fatal(err)
		}
	}
}

// startStrict starts workers that own slots for ownerLease.
func startStrict(t testing.TB, net network, s store.Store, n int) (workers []*worker.Process) {
	t.Helper()
	for range n {
		workers = append(workers, startWorker(t, net, worker.Config{Store: s, StoreName: "test", OwnerLease: ownerLease, Log: zaptest.NewLogger(t)}))
	}
	return workers
}

// risingCalls are calls of many callers, each of which must get higher IDs than all that were answered
// before it began.
type risingCalls struct {
	mu      sync.Mutex
	highest int64 // of all that were answered
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

// TestStrictOrderAcrossWorkers: whichever of three workers a request reaches, its IDs are higher than all
// that were answered before; also while workers come and go.
func TestStrictOrderAcrossWorkers(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	first := startWorker(t, net, worker.Config{Store: s, StoreName: "test", OwnerLease: ownerLease})
	createStrict(t, net, s, 100, "order", "invoice")
	workers := append(startStrict(t, net, s, 2), first)
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
	for range tier.Pick(1, 5) {
		awaitCalls()
		startStrict(t, net, s, 1)
		stop(t, workers[0])
		workers = workers[1:]
	}
	awaitCalls()
	close(done)
	for i := range all {
		all[i].Wait()
		t.Logf("%d calls", rising[i].calls)
	}
}
