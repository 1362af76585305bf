package bench

import (
	"testing"
	"time"

	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker"
)

// TestAtRest measures the traffic of an idle process. The long form uses the
// default settings, and prints the table in docs/benchmarks.md; in the short form
// every period is a tenth.
func TestAtRest(t *testing.T) {
	scale := tier.Pick[time.Duration](10, 1)
	measure := tier.Pick(9*time.Second, 3*time.Minute)
	for _, role := range []worker.Role{worker.RoleWorker, worker.RoleLoader, worker.RoleAll} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			ttl := lease.DefaultTTL / scale
			srv := natstest.Start(t, syncAlways)
			s := newSite(t, srv, worker.Config{Lease: lease.Config{TTL: ttl}}, nil)
			s.createTags(10, "tag", store.Trend)
			s.createTags(10, "strict", store.Strict)
			tap := newTap(t, srv)
			others := present(t, srv)
			s.mustStart(role)
			if role != worker.RoleLoader {
				natstest.Eventually(t, "a worker ID", func() bool {
					counts, _ := tap.end()
					return counts["write ids_clock"] > 1 // the identity, and the claim
				})
			}
			time.Sleep(ttl / 3) // its start is over
			before := trafficOf(t, srv, others)
			tap.begin()
			time.Sleep(measure)
			counts, took := tap.end()
			after := trafficOf(t, srv, others)
			minutes := took.Minutes()
			t.Logf("role %s:%s\n%-28s %8.1f a minute\n%-28s %8.1f a minute\n%-28s %8d\n%-28s %8d", role, perMinute(counts, took),
				"messages to the server", float64(after.toServer-before.toServer)/minutes,
				"messages from the server", float64(after.fromServer-before.fromServer)/minutes,
				"subscriptions", after.subscriptions,
				"connections", after.connections)

			beats, looks := 0, 0
			if role != worker.RoleLoader {
				beats = int(took/(ttl*3/10)) + 1 // a tenth earlier than they have to be
			}
			if role != worker.RoleWorker {
				looks = int(took/time.Second) + 1 // did the register go back?
			}
			most := map[string]int{
				"write ids_workers": beats, "write ids_clock": beats, // the two of a heartbeat
				"write ids_config": 0, "write ids_register": 0,
				"API STREAM.INFO": beats + looks + 2, // the server's clock; the register
			}
			for kind, most := range most {
				if counts[kind] > most {
					t.Errorf("role %s: %s: %d in %v, want at most %d", role, kind, counts[kind], took, most)
				}
			}
			if api, most := sum(counts, "API"), beats+2*looks+4; api > most {
				t.Errorf("role %s: %d API calls in %v, want at most %d", role, api, took, most)
			}
		})
	}
}
