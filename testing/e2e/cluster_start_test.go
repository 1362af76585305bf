package e2e

import (
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

// TestStartWithoutLeader starts processes while the servers of a cluster are restarted one by one, and the only
// copy of some bucket is on the one that is away. They wait for it.
func TestStartWithoutLeader(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	var urls []string
	for _, s := range c.Servers {
		urls = append(urls, s.URL())
	}
	all := strings.Join(urls, ",")
	must(t, "provision", "--server", all)
	for _, bucket := range []string{"KV_ids_config", "KV_ids_owners"} {
		away := c.StreamLeader(bucket)
		away.Stop()
		var starting []*process
		for _, role := range []string{"worker", "loader"} {
			starting = append(starting, settings{}.launch(t, "serve", "--server", all, "--role", role))
		}
		for _, p := range starting {
			natstest.Eventually(t, readyWithin, "it waits, or has ended", func() bool {
				return p.hasEnded() || strings.Contains(p.stderr.String(), "does it have a leader?") || strings.Contains(p.stderr.String(), "\tserving\t")
			})
		}
		away.Restart()
		for _, p := range starting {
			p.serving()
		}
		c.WaitReady(t)
	}
}
