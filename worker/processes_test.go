package worker_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// TestListProcesses: every process is listed with its role, in any state, and
// processes of another prefix are not.
func TestListProcesses(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	both := startWorker(t, net, worker.Config{Store: s})
	alone := startWorker(t, net, worker.Config{Role: worker.RoleWorker})
	loader := startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s})
	startWorker(t, net, worker.Config{Role: worker.RoleWorker, Prefix: "other"})
	conn := net.Connect(t)
	listed := func(want ...*worker.Process) bool {
		found, err := worker.ListProcesses(t.Context(), conn, messages.DefaultPrefix)
		if err != nil && !errors.Is(err, worker.ErrNoReports) {
			t.Fatal(err)
		}
		roles := map[string]worker.Role{both.Instance(): worker.RoleAll, alone.Instance(): worker.RoleWorker, loader.Instance(): worker.RoleLoader}
		for _, p := range found {
			if p.Role != roles[p.Instance] || p.Installation != both.Installation() || p.Created.IsZero() || p.Host == "" {
				t.Errorf("%+v", p)
			}
		}
		return len(found) == len(want) && !slices.ContainsFunc(want, func(w *worker.Process) bool {
			return !slices.ContainsFunc(found, func(p worker.ProcessIdentity) bool { return p.Instance == w.Instance() })
		})
	}
	natstest.Eventually(t, "all three", func() bool { return listed(both, alone, loader) })
	stop(t, both)
	natstest.Eventually(t, "two", func() bool { return listed(alone, loader) })
}

// TestLoaderListens: only the server's answer proves that no loader is
// connected. A loader that does not answer counts as connected.
func TestLoaderListens(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	conn := net.Connect(t)
	within := natstest.Patience
	listens := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		found, err := worker.LoaderListens(ctx, conn, messages.DefaultPrefix)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	startWorker(t, net, worker.Config{Role: worker.RoleWorker})
	startWorker(t, net, worker.Config{Store: s, Prefix: "other"})
	natstest.Eventually(t, "neither a worker nor another prefix's loader counts", func() bool { return !listens() })
	for _, role := range []worker.Role{worker.RoleAll, worker.RoleLoader} {
		loader := startWorker(t, net, worker.Config{Role: role, Store: s})
		if !listens() {
			t.Errorf("role %s is no loader", role)
		}
		stop(t, loader)
		natstest.Eventually(t, "no loader", func() bool { return !listens() })
	}
	paused := net.Connect(t)
	if _, err := paused.SubscribeSync("ids.process.loader"); err != nil {
		t.Fatal(err)
	}
	within = 50 * time.Millisecond
	natstest.Eventually(t, "a paused loader", listens)
}
