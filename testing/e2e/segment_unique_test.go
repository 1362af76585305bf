package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/soak"
)

// syncAlways is how an operator has to run a server for idworker.
func syncAlways(o *server.Options) { o.SyncAlways = true }

func TestNoDuplicateThroughKillAndStop(t *testing.T) {
	total := soak.Pick[int64](1_000_000, 2_000_000)
	tags := []string{"order", "invoice", "shop.eu.basket"}
	const callerCount = 8

	nats := natstest.Start(t, syncAlways)
	granted := listen(t, nats.URL())
	// Small steps: many segments change hands, and many loads are under way when a
	// process is killed.
	join := func() *process { return startWorker(t, nats.URL(), "--max-batch", "5000", "--max-step", "10000") }
	killed, stopped, stays := join(), join(), join()
	for _, tag := range tags {
		must(t, "tag", "create", "--server", nats.URL(), tag, "--step", "1000", "--max-step", "10000")
		knownToAll(t, nats.URL(), tag, 3)
	}

	begin := time.Now()
	c := startCallers(t, nats.URL(), load{callers: callerCount, tags: tags, maxBatch: 5000, timeout: 4 * time.Second, retry: lost})
	handedOut := func(n int64) {
		t.Helper()
		natstest.Eventually(t, 3*time.Minute, "so many IDs are handed out", func() bool {
			return c.ledgers.ids() >= n || t.Failed()
		})
	}
	handedOut(total / 2)
	killed.kill()
	stopped.stop(syscall.SIGTERM)
	joined := join()
	handedOut(max(total, c.ledgers.ids()+total/10)) // the new one takes part
	replies := c.finish()
	took := time.Since(begin)

	c.ledgers.check(t)
	answered := checkOrder(t, granted, replies)
	for name, p := range map[string]*process{"killed": killed, "stopped": stopped, "stays": stays, "joined": joined} {
		if answered[p.instance()] == 0 {
			t.Errorf("the process that %s answered no request", name)
		}
	}
	// Only what was under way at a process when it was killed may be lost.
	if n := c.lost.Load(); n > callerCount {
		t.Errorf("%d requests were lost, at most %d were under way", n, callerCount)
	}
	t.Logf("%d IDs in %d replies in %v, %d requests lost to kill -9, %d segments granted",
		c.ledgers.ids(), len(replies), took.Round(time.Millisecond), c.lost.Load(), granted.count())
}
