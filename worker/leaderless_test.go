package worker_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// TestStartWithoutLeader: the only server that has the rules of tags is restarted while a process starts, which
// asks again until it is there.
func TestStartWithoutLeader(t *testing.T) {
	t.Parallel()
	cluster := natstest.StartCluster(t, 3)
	conn := cluster.Connect(t)
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	defer cancel()
	w, err := worker.Open(ctx, worker.Config{Role: worker.RoleWorker, Requests: conn, Control: cluster.Connect(t), Version: "0.0.1", Log: zaptest.NewLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	var away *natstest.Server
	natstest.Eventually(t, "the rules have a leader", func() bool {
		away = cluster.StreamLeader("KV_ids_config")
		return away != nil
	})
	away.Stop()
	started := make(chan error, 1)
	go func() { started <- w.Start(t.Context()) }()
	select {
	case err := <-started:
		t.Fatalf("started without the rules: %v", err)
	case <-time.After(6 * time.Second): // one question that nobody answers is given up after 5 s
	}
	away.Restart()
	select {
	case err := <-started:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(natstest.Patience):
		t.Fatal("it does not start")
	}
	stop(t, w)
}
