package e2e

import (
	"testing"
	"time"

	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/soak"
)

// TestDatabaseIsPutBack kills a database under load, and starts it again on an older copy of
// its data folder.
func TestDatabaseIsPutBack(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			testDatabasePutBack(t, d)
		})
	}
}

func testDatabasePutBack(t *testing.T, d database) {
	rounds := soak.Pick(1, 5)
	age := soak.Pick(time.Second, 10*time.Second) // of the copy
	srv := d.local(t)
	insertGone(t, d, srv.DB, rounds)
	g := startGone(t, srv.DSN())

	for range rounds {
		noticed := g.round(t, goingBack{
			forget: func(tag string) int64 {
				srv.Kill()
				srv.SaveData()
				srv.Restart()
				saved := time.Now()
				had := map[string]int64{tag: maxID(t, srv.DB, tag), goneTag: maxID(t, srv.DB, goneTag)}
				lost := func(tag string) int64 { return maxID(t, srv.DB, tag) - had[tag] }
				natstest.Eventually(t, readyWithin, "the copy is old", func() bool {
					return time.Since(saved) >= age && lost(tag) >= goneLoss*goneStep && lost(goneTag) >= goneLoss*goneStep
				})
				n := lost(tag)
				srv.Kill()
				srv.RestoreData()
				return n
			},
			back: srv.Restart,
		})
		if !noticed {
			t.Errorf("no loader logged that the store went back")
		}
	}
	g.finish(t, srv.DB)
}

// lazies are databases that confirm commits before they are written, up to a second's worth of
// them. Reservations in PostgreSQL do not depend on that setting.
var lazies = map[string]struct {
	start func(testing.TB, ...string) *dbtest.Server
	args  []string
	loses bool
}{
	"MySQL":      {dbtest.StartMySQLWith, []string{"--innodb-flush-log-at-trx-commit=0"}, true},
	"PostgreSQL": {dbtest.StartPostgresWith, []string{"-c", "synchronous_commit=off", "-c", "wal_writer_delay=1s"}, false},
}

// TestKilledDatabaseThatDidNotSync kills a database that confirms commits before they are
// written. How many are lost is a matter of the moment.
func TestKilledDatabaseThatDidNotSync(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			testDidNotSync(t, d)
		})
	}
}

func testDidNotSync(t *testing.T, d database) {
	rounds := soak.Pick(2, 30)
	lazy := lazies[d.name]
	srv := lazy.start(t, lazy.args...)
	insertGone(t, d, srv.DB, rounds)
	proxy := dbtest.StartProxy(t, srv.Addr())
	g := startGone(t, srv.DSNVia(proxy))

	var lost int64
	for range rounds {
		g.round(t, goingBack{
			forget: func(tag string) int64 {
				from := maxID(t, srv.DB, tag)
				natstest.Eventually(t, readyWithin, "commits are made", func() bool {
					return maxID(t, srv.DB, tag)-from >= goneLoss*goneStep
				})
				had := maxID(t, srv.DB, tag)
				srv.Kill()
				proxy.Refuse() // until it is known what was lost
				srv.Restart()
				n := max(0, had-maxID(t, srv.DB, tag))
				lost += n
				return n
			},
			back: proxy.Accept,
		})
	}
	g.finish(t, srv.DB)
	t.Logf("%d IDs lost", lost)
	switch {
	case lazy.loses && lost == 0 && rounds > 2:
		t.Error("no commit was lost")
	case !lazy.loses && lost > 0:
		t.Errorf("%d reserved IDs were lost", lost)
	}
}
