package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// TestRollingRestartLosesNothing restarts two workers, one after the other, several times.
// The callers retry nothing.
func TestRollingRestartLosesNothing(t *testing.T) {
	rounds := tier.Pick(4, 10)
	tags := []string{"order", "invoice"}
	nats := natstest.Start(t, syncAlways)
	granted := listen(t, nats.URL())
	join := func() *process { return startWorker(t, nats.URL(), "--max-batch", "500", "--max-step", "2000") }
	workers := []*process{join(), join()}
	for _, tag := range tags {
		must(t, "tag", "create", "--server", nats.URL(), tag, "--step", "100", "--max-step", "2000")
		knownToAll(t, nats.URL(), tag, len(workers))
	}

	begin := time.Now()
	c := startCallers(t, nats.URL(), load{callers: 6, tags: tags, maxBatch: 500, timeout: 10 * time.Second})
	var longest time.Duration
	for range rounds {
		for i, old := range workers {
			stopping := time.Now()
			old.stop(syscall.SIGTERM)
			longest = max(longest, time.Since(stopping))
			workers[i] = join()
			// It serves before the other one stops: callers see it work.
			before := c.ledgers.ids()
			natstest.Eventually(t, "IDs are handed out", func() bool { return c.ledgers.ids() > before || t.Failed() })
		}
		if t.Failed() {
			return
		}
	}
	replies := c.finish()

	c.ledgers.check(t)
	answered := checkOrder(t, granted, replies)
	t.Logf("%d stops by TERM in %v, the longest %v; %d requests, %d IDs, %d processes answered",
		2*rounds, time.Since(begin).Round(time.Millisecond), longest.Round(time.Millisecond), len(replies), c.ledgers.ids(), len(answered))
}

func syncAlways(o *server.Options) { o.SyncAlways = true }
