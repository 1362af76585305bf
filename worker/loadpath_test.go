package worker_test

import (
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/loadmsg"
)

// use takes n single IDs and fails on an ID that does not lie above the last.
func (c client) use(tag string, n int, last int64) int64 {
	c.t.Helper()
	for range n {
		ranges, err := c.withRetry(tag, 1)
		if err != nil {
			c.t.Fatal(err)
		}
		if ranges[0].First <= last {
			c.t.Fatalf("%d after %d", ranges[0].First, last)
		}
		last = ranges[0].First
	}
	return last
}

// TestRolesApart: a worker without a store lives on the grants of a loader.
func TestRolesApart(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s})
	startWorker(t, net, worker.Config{Role: worker.RoleWorker, MaxStep: 5, MaxBatch: 5})
	createTags(t, s, 5, "order")
	c := newClient(t, net)
	c.use("order", 1000, c.must("order"))
}

// TestSmallerMaxStep: during a change of --max-step, loaders and workers have
// different values. A loader grants up to its own, a worker uses up to its own.
func TestSmallerMaxStep(t *testing.T) {
	t.Parallel()
	small := worker.Config{MaxStep: 10, MaxBatch: 10}
	for _, c := range []struct{ loader, worker worker.Config }{{loader: small}, {worker: small}} {
		net := worker.NewAccount(t)
		c.loader.Role, c.worker.Role = worker.RoleLoader, worker.RoleWorker
		s := newStore(t, net, 1)
		c.loader.Store = s
		startWorker(t, net, c.loader)
		startWorker(t, net, c.worker)
		createTags(t, s, 10, "order")
		client := newClient(t, net)
		client.use("order", 50, client.must("order"))
		if c.worker.MaxBatch == 0 {
			if _, err := client.withRetry("order", 100); err != nil {
				t.Errorf("a batch of ten segments: %v", err)
			}
		}
	}
}

// TestWithoutLoadStream: when the load stream is gone, segments are loaded
// directly, and through the stream again when it is back.
func TestWithoutLoadStream(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s})
	startWorker(t, net, worker.Config{Role: worker.RoleWorker, MaxStep: 5, MaxBatch: 5})
	createTags(t, s, 5, "order")
	c := newClient(t, net)
	last := c.must("order")

	js := newJetStream(t, net)
	name := loadmsg.StreamName(messages.DefaultPrefix)
	if err := js.DeleteStream(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	last = c.use("order", 100, last)
	natstest.Eventually(t, "the stream to be created again, and used", func() bool {
		last = c.use("order", 50, last) // causes loads
		stream, err := js.Stream(t.Context(), name)
		return err == nil && stream.CachedInfo().State.LastSeq > 0
	})
	c.use("order", 50, last)
}
