package worker_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// TestStartStopStress starts and stops many processes of all roles side by
// side, under load. Many starts are cut off in the middle, and several
// goroutines call each Stop. All goroutines have ended when Stop or a failed
// Start returns: TestMain finds leftover goroutines.
func TestStartStopStress(t *testing.T) {
	t.Parallel()
	const processes, rounds = 8, 3
	random := worker.NewRandom(t)
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	steady := startWorker(t, net, worker.Config{Store: s, Wait: time.Second})
	// With steps this small, loads never end.
	createTags(t, s, 1, "order", "invoice")

	traffic, stopTraffic := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for _, tag := range []string{"order", "invoice"} {
		c := newClient(t, net)
		callers.Go(func() {
			for traffic.Err() == nil {
				_, _ = c.try(tag, 3) // may fail: workers come and go
			}
		})
	}
	roles := []worker.Role{worker.RoleAll, worker.RoleWorker, worker.RoleLoader, worker.RoleSnowflake}
	var started, failed atomic.Int64
	var all sync.WaitGroup
	var conns []*nats.Conn
	for i := range processes {
		cfg := configure(t, net, worker.Config{Role: roles[i%len(roles)], Store: s, Wait: 100 * time.Millisecond, Log: zap.NewNop()})
		conns = append(conns, cfg.Requests, cfg.Control)
		all.Go(func() {
			for round := range rounds {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				switch cfg.Version = "0.0.1"; round % 3 {
				case 1: // often too short, and ends at a different point each time
					ctx, cancel = context.WithTimeout(ctx, random.Below(time.Second))
				case 2:
					// A worker fails at the last step, its queue group.
					cfg.Version = ""
				}
				w, err := startProcess(ctx, cfg)
				cancel()
				if err != nil {
					failed.Add(1)
					continue
				}
				started.Add(1)
				stopTogether(t, w)
			}
		})
	}
	all.Wait()
	for _, conn := range conns {
		natstest.Eventually(t, "subscriptions to end, but for JetStream's own", func() bool { return conn.NumSubscriptions() <= 2 })
	}
	stopTraffic()
	callers.Wait()
	stopTogether(t, steady)
	t.Logf("%d processes started and stopped, %d failed to start", started.Load(), failed.Load())
	if least := int64(processes * rounds / 3); started.Load() < least || failed.Load() < least*2/3 {
		t.Errorf("%d processes started and %d failed to, want at least %d and %d", started.Load(), failed.Load(), least, least*2/3)
	}
}

// stopTogether stops a process from several goroutines at once.
func stopTogether(t *testing.T, w *worker.Process) {
	var stops sync.WaitGroup
	for range 3 {
		stops.Go(func() {
			stop(t, w)
			if err := w.Ready(); err == nil || err.Error() != "stopping" {
				t.Errorf("a process that has stopped is %v", err)
			}
		})
	}
	stops.Wait()
}

// TestUnusableLoadStream: no process for segments starts with a load stream
// that keeps several events of a tag.
func TestUnusableLoadStream(t *testing.T) {
	t.Parallel()
	js := newJetStream(t, worker.NewAccount(t))
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "IDS_LOAD", Subjects: []string{"ids.load.>"}}); err != nil {
		t.Fatal(err)
	}
	for _, role := range []worker.Role{worker.RoleAll, worker.RoleWorker, worker.RoleLoader} {
		_, err := worker.Provision(t.Context(), worker.Config{Role: role, JetStream: js})
		if err == nil || !strings.Contains(err.Error(), "IDS_LOAD: not a work queue") {
			t.Errorf("role %s: %v", role, err)
		}
	}
}
