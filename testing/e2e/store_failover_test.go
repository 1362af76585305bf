package e2e

import (
	"testing"

	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/soak"
)

// TestFailoverThatLosesCommits kills the primary database under load, and promotes a replica
// that lacks the latest commits, again and again.
func TestFailoverThatLosesCommits(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			testFailover(t, d)
		})
	}
}

func testFailover(t *testing.T, d database) {
	rounds := soak.Pick(2, 30)
	pair := d.pair(t)
	insertGone(t, d, pair.DB, rounds)
	proxy := dbtest.StartProxy(t, pair.Addr())
	g := startGone(t, pair.DSNVia(proxy))

	for range rounds {
		pair.Follow()
		noticed := g.round(t, goingBack{
			forget: func(tag string) int64 {
				lost := func(tag string) int64 { return maxID(t, pair.DB, tag) - maxID(t, pair.Replica(), tag) }
				pair.Cut()
				natstest.Eventually(t, readyWithin, "the replica lags", func() bool {
					return lost(tag) >= goneLoss*goneStep && lost(goneTag) >= goneLoss*goneStep
				})
				n := lost(tag)
				pair.FailOver()
				return n
			},
			back: func() { proxy.Switch(pair.Addr()) },
		})
		if !noticed {
			t.Errorf("no loader logged that the store went back")
		}
	}
	g.finish(t, pair.DB)
}
