package e2e

import (
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/soak"
	"github.com/idworker/idworker/worker"
)

// TestRunwayFromTheFirstMinute: traffic that sets in on a fresh tag has 13½ minutes of IDs in
// memory within a minute, for few writes of a real database. The allocator's tests show it for
// all rates, in virtual time.
func TestRunwayFromTheFirstMinute(t *testing.T) {
	t.Parallel()
	const (
		tag       = "order"
		perSecond = 500
		promised  = 13*60 + 30 // seconds
		writes    = 8
	)
	db := databases[0].with(t, "'"+tag+"', 1, 1000")
	ns := natstest.Start(t)
	on(db.DSN()).startWorker(t, ns.URL())
	knownToAll(t, ns.URL(), tag, 1)
	conn := connect(t, ns.URL())
	figures := func() (s worker.Stats) {
		for _, s = range stats(t, conn, 1) {
		}
		return s
	}
	load := startSteady(t, ns.URL(), tag, perSecond)
	began := time.Now()
	natstest.Eventually(t, time.Minute, "memory lasts", func() bool {
		return figures().Tags[0].Left >= promised*perSecond
	})
	t.Logf("after %v: %+v, %d store writes", time.Since(began), figures().Tags[0], figures().Loads.Writes)
	for time.Since(began) < soak.Pick(0, time.Minute) {
		time.Sleep(time.Second)
		if s := figures(); s.Tags[0].Left < promised*perSecond {
			t.Errorf("after %v: %+v", time.Since(began), s)
		}
	}
	s := figures()
	t.Logf("after %v: %+v, %d store writes", time.Since(began), s.Tags[0], s.Loads.Writes)
	if s.Loads.Writes > writes {
		t.Errorf("%d store writes, want %d at most", s.Loads.Writes, writes)
	}
	load.finish()
	load.ledger.check(t)
	if answers := load.since(0); firstError(answers) >= 0 {
		t.Errorf("of %d requests one failed: %v", len(answers), answers[firstError(answers)].err)
	}
}
