package monitoring

import (
	"testing"
	"time"

	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
)

// databaseStory is about Leaf's table in PostgreSQL, whose column is narrow at first.
func databaseStory(t *testing.T) {
	db := dbtest.Postgres(t)
	network := proxy.Start(t, db.Addr())
	db.Exec(t, leaftest.Postgres.Narrow,
		"INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 5000, 100000), ('narrow', 2147483000, 100), ('lost', 1, 100)")
	s := newSite(t)
	process := s.ready("all", "serve", "--new", "--store-file", s.file("dsn", db.DSNVia(network)+"\n"), "--max-step", "100000", "--max-batch", "100")
	order := func() { s.ask("order", 1, 1) }
	s.warm("order", process)
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
		during: func() { s.ask("order", 200, 100) },
		cure:   func() {},
		pace:   pace,
	}, {
		alerts: []string{"TagFails"},
		what:   "the row of a tag was deleted",
		cause: func() {
			s.ask("lost", 1, 10)
			natstest.Eventually(t, "the tag is in use", func() (used bool) {
				err := db.SQL().QueryRowContext(t.Context(), "SELECT max_id > 1 FROM leaf_alloc WHERE biz_tag = 'lost'").Scan(&used)
				return err == nil && used
			})
			db.Exec(t, "DELETE FROM leaf_alloc WHERE biz_tag = 'lost'")
		},
		during: func() { s.ask("lost", 2, 100) },
		cure:   func() { db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('lost', 100000, 100)") },
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
