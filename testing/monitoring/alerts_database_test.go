package monitoring

import (
	"testing"
	"time"

	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/proxy"
)

// databaseStory is about Leaf's table in PostgreSQL, whose column is narrow at first.
func databaseStory(t *testing.T) {
	db := dbtest.Postgres(t)
	network := proxy.Start(t, db.Addr())
	db.Exec(t, leaftest.Postgres.Narrow,
		"INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 5000, 100), ('narrow', 2147483000, 100)")
	s := newSite(t)
	s.ready("all", "serve", "--new", "--store", db.DSNVia(network), "--max-step", "100", "--max-batch", "100")
	order := func() { s.ask("order", 1, 10) }
	s.healthy(20*time.Minute, order)

	s.all([]fault{{
		alerts: []string{"StoreAway"},
		what:   "the database's address refuses connections",
		cause:  network.Refuse,
		during: order,
		cure:   network.Mend,
		pace:   pace,
	}, {
		alerts: []string{"TableWentBack"},
		what:   "a row was set back, as by a failover that lost commits",
		cause:  func() { db.Exec(t, "UPDATE leaf_alloc SET max_id = 5000 WHERE biz_tag = 'order'") },
		during: func() { s.ask("order", 2, 100) },
		cure:   func() {},
		pace:   pace,
	}, {
		alerts: []string{"TagNumbersUsedUp", "TagSoonUsedUp"},
		what:   "max_id is an INT (a setting), and a tag came to its end",
		cause:  func() {},
		during: func() { s.ask("narrow", 2, 100) },
		cure:   func() { db.Exec(t, leaftest.Postgres.Widen) },
		pace:   pace,
	}})
}
