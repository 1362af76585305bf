package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
	"github.com/idworker/idworker/testing/tier"
)

// tableSite is workers and loaders on tables of Leaf's, under load.
type tableSite struct {
	url     string
	load    *callers
	loaders []*process
	status  []string // where they serve HTTP
}

// startTableSite starts a loader for each DSN.
func startTableSite(t *testing.T, tags []string, dsns ...string) *tableSite {
	t.Helper()
	s := &tableSite{url: natstest.Start(t).URL()}
	for _, dsn := range dsns {
		address := freeport.Address(t)
		s.status = append(s.status, address)
		s.loaders = append(s.loaders, on(dsn).startWorker(t, s.url, append(folderSteps, "--role", "loader", "--http", address)...))
	}
	for range 2 {
		startWorker(t, s.url, append(folderSteps, "--role", "worker")...)
	}
	for _, tag := range tags {
		heldByAll(t, s.url, tag, 2)
	}
	s.load = startCallers(t, s.url, load{
		callers: 4, tags: tags, maxBatch: 50, timeout: askAgain, retry: lost, // the database will be away
	})
	return s
}

// sum adds up a metric of the loaders.
func (s *tableSite) sum(t *testing.T, name string, labels ...string) (n float64) {
	t.Helper()
	for _, address := range s.status {
		n += metricsOf(t, address).sum(name, labels...)
	}
	return n
}

// more waits until the loaders have granted some more ranges, and callers have
// got IDs of them.
func (s *tableSite) more(t *testing.T) {
	t.Helper()
	target := s.sum(t, "idworker_store_granted_total") + 10
	natstest.Eventually(t, "ranges are granted", func() bool { return s.sum(t, "idworker_store_granted_total") >= target })
	s.load.more(1000)
}

// TestDatabasePair: an old copy of the database, a replica that had fallen
// behind, takes its place under load, again and again. Then the primary becomes
// read-only and lives on, and its name leads to the promoted replica. No ID comes
// twice, service goes on without an administrator, and status names the server.
func TestDatabasePair(t *testing.T) {
	t.Parallel()
	for _, d := range []struct {
		name string
		*leaftest.Dialect
	}{{"MariaDB", &leaftest.MySQL}, {"PostgreSQL", &leaftest.Postgres}} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			pair := d.Pair(t)
			pair.Exec(t, d.Shapes["official"])
			var tags []string
			for n := range 10 {
				tags = append(tags, fmt.Sprint("tag", n))
				insert(t, pair.DB, "'"+tags[n]+"', 1, 10")
			}
			grant := d.User("loader", canary, "SELECT, INSERT, UPDATE")
			pair.Exec(t, grant[:len(grant)-1]...)
			name := proxy.Start(t, pair.Addr()) // an address that follows the primary
			dsn := pair.DSNForVia("loader", canary, name)
			s := startTableSite(t, tags, dsn, dsn)
			for range tier.Pick(2, 10) {
				pair.Follow()
				pair.Cut()
				s.more(t)
				before := s.sum(t, "idworker_store_went_back_total", "table")
				pair.FailOver()
				name.Switch(pair.Addr())
				natstest.Eventually(t, "a loader notices", func() bool {
					return s.sum(t, "idworker_store_went_back_total", "table") > before
				})
				s.more(t)
			}
			pair.Follow()
			at := func(server string) bool {
				_, port, _ := net.SplitHostPort(server)
				return strings.Contains(run(t, "status", "--server", s.url).stdout, ":"+port+"\n")
			}
			natstest.Eventually(t, "status names the primary", func() bool { return at(pair.Addr()) })
			fails := s.loaders[0].says("store fails")
			pair.SwitchOver()
			natstest.Eventually(t, "loads fail at the old primary", func() bool { return s.loaders[0].says("store fails") > fails })
			name.Turn(pair.Addr())
			s.more(t)
			natstest.Eventually(t, "status names the new primary", func() bool { return at(pair.Addr()) })
			s.load.finish()
			s.load.ledgers.check(t)
			for _, l := range s.loaders {
				l.showsNoPassword()
			}
		})
	}
}
