package worker_test

import (
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// TestCount: processes are counted by what they do, and those of another prefix are not.
func TestCount(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	both := startWorker(t, net, worker.Config{Store: s})
	startWorker(t, net, worker.Config{Role: worker.RoleWorker})
	loader := startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s})
	startWorker(t, net, worker.Config{Role: worker.RoleWorker, Prefix: "other"})
	conn, js := net.Connect(t), newJetStream(t, net)
	counted := func(workers, loaders int) bool {
		w, err := worker.CountWorkers(t.Context(), conn, messages.DefaultPrefix)
		if err != nil {
			t.Fatal(err)
		}
		l, err := worker.CountLoaders(t.Context(), js, messages.DefaultPrefix)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d workers, %d loaders", w, l)
		return w == workers && l == loaders
	}
	natstest.Eventually(t, "two workers and two loaders", func() bool { return counted(2, 2) })
	stop(t, both)
	natstest.Eventually(t, "one of each", func() bool { return counted(1, 1) })
	stop(t, loader)
	natstest.Eventually(t, "one worker and no loader", func() bool { return counted(1, 0) })
}
