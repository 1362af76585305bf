package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// TestWithoutQuorum: with two of three servers gone, JetStream takes no load
// event and no write. Buffers serve on, then there are typed errors, and when
// the servers are back, so are the IDs, without a restart.
func TestWithoutQuorum(t *testing.T) {
	t.Parallel()
	cluster := natstest.StartCluster(t, 3)
	net := cluster.Servers[0]
	s := newStore(t, cluster, 3)
	startWorker(t, net, worker.Config{Store: s, Replicas: 3, Wait: time.Second})
	createTags(t, s, 1000, "order", "cold")
	c := newClient(t, net)
	last := c.must("order")
	natstest.Eventually(t, "one segment in use and one ready", func() bool {
		if leftOf(t, c, "order") > 1000 {
			return true
		}
		last = c.use("order", 10, last)
		return false
	})

	cluster.Servers[1].Stop()
	cluster.Servers[2].Stop()
	last = c.use("order", 100, last) // of the buffered IDs
	if _, err := c.ask("cold", 1); !errors.Is(err, messages.ErrUnavailable) {
		t.Errorf("a tag without memory: %v, want 503", err)
	}
	natstest.Eventually(t, "503 when memory is empty", func() bool {
		left := leftOf(t, c, "order") // a grant may have been in flight
		ranges, err := c.ask("order", min(max(left, 1), worker.DefaultMaxBatch))
		if err == nil {
			if ranges[0].First <= last {
				t.Fatalf("%d after %d", ranges[0].First, last)
			}
			last = ranges[len(ranges)-1].Last
		}
		return errors.Is(err, messages.ErrUnavailable)
	})

	cluster.Servers[1].Restart()
	cluster.Servers[2].Restart()
	natstest.Eventually(t, "IDs", func() bool {
		ranges, err := c.try("order", 1)
		if err == nil && ranges[0].First <= last {
			t.Fatalf("%d after %d", ranges[0].First, last)
		}
		return err == nil
	})
	natstest.Eventually(t, "IDs of the other tag, whose load may still wait for an answer from no leader", func() bool {
		_, err := c.try("cold", 1)
		return err == nil
	})
}
