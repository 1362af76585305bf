package e2e

import (
	"testing"

	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
	"github.com/idworker/idworker/testing/tier"
)

// tableSite is workers and loaders on tables of Leaf's, under load.
type tableSite struct {
	load   *callers
	status []string // where the loaders serve HTTP
}

// startTableSite starts a loader for each DSN.
func startTableSite(t *testing.T, tags []string, dsns ...string) *tableSite {
	t.Helper()
	s := new(tableSite)
	url := natstest.Start(t).URL()
	for _, dsn := range dsns {
		address := freeport.Address(t)
		s.status = append(s.status, address)
		on(dsn).startWorker(t, url, append(folderSteps, "--role", "loader", "--http", address)...)
	}
	for range 2 {
		startWorker(t, url, append(folderSteps, "--role", "worker")...)
	}
	for _, tag := range tags {
		heldByAll(t, url, tag, 2)
	}
	s.load = startCallers(t, url, load{callers: 4, tags: tags, maxBatch: 50})
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

// TestDatabaseIsPutBack: an old copy of the database, a replica that had fallen
// behind, takes its place under load, again and again. No ID comes twice, and
// service goes on without an administrator.
func TestDatabaseIsPutBack(t *testing.T) {
	t.Parallel()
	for _, d := range []struct {
		name  string
		start func(testing.TB) *dbtest.Pair
		leaftest.Dialect
	}{{"MariaDB", dbtest.StartMariaDBPair, leaftest.MySQL}, {"PostgreSQL", dbtest.StartPostgresPair, leaftest.Postgres}} {
		t.Run(d.name, func(t *testing.T) {
			tags := []string{"order", "invoice"}
			pair := d.start(t)
			pair.Exec(t, d.Shapes["official"])
			insert(t, pair.DB, "'order', 1, 10", "'invoice', 1, 10")
			proxy := proxy.Start(t, pair.Addr()) // an address that follows the primary
			s := startTableSite(t, tags, pair.DSNVia(proxy), pair.DSNVia(proxy))
			for range tier.Pick(2, 10) {
				pair.Follow()
				pair.Cut()
				s.more(t)
				before := s.sum(t, "idworker_store_went_back_total", "table")
				pair.FailOver()
				proxy.Switch(pair.Addr())
				natstest.Eventually(t, "a loader notices", func() bool {
					return s.sum(t, "idworker_store_went_back_total", "table") > before
				})
				s.more(t)
			}
			s.load.finish()
			s.load.ledgers.check(t)
		})
	}
}

// TestTwoDatabasesOfOneName: two loaders of an installation have different
// databases by mistake, of the same name. No ID comes twice.
func TestTwoDatabasesOfOneName(t *testing.T) {
	t.Parallel()
	d := databases[0]
	one := d.with(t, "'order', 1, 10")
	other := dbtest.StartMySQL(t).Beside(one)
	other.Exec(t, d.Shapes["official"])
	insert(t, other, "'order', 1, 10")
	s := startTableSite(t, []string{"order"}, one.DSN(), other.DSN())
	for _, db := range []*dbtest.DB{one, other} {
		before := maxID(t, db, "order")
		natstest.Eventually(t, "each database is used", func() bool { return maxID(t, db, "order") > before })
	}
	s.more(t)
	s.load.finish()
	s.load.ledgers.check(t)
}
