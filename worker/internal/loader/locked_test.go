package loader

import (
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/register"
	storesql "github.com/idworker/idworker/store/sql"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// TestRowsLockedBySomebody: while rows of a real database are locked, their
// tags are in demand and get nothing, and all other tags get their segments.
// When the rows are free, their tags get theirs.
func TestRowsLockedBySomebody(t *testing.T) {
	tier.All(t)
	for name, backend := range map[string]leaftest.Dialect{"mysql": leaftest.MySQL, "postgres": leaftest.Postgres} {
		for _, locked := range []int{9, 20, 60} {
			t.Run(fmt.Sprint(name, ", ", locked, " rows"), func(t *testing.T) { testLockedRows(t, backend, locked) })
		}
	}
}

func testLockedRows(t *testing.T, backend leaftest.Dialect, locked int) {
	const others, grants = 20, 15
	db := backend.Database(t)
	db.Exec(t, backend.Shapes["official"])
	for _, tag := range append(names("locked", locked), names("other", others)...) {
		db.Exec(t, fmt.Sprintf("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('%s', 1, 10)", tag))
	}
	w := startLoader(t, db.DSN())

	// At the default level, MySQL locks the following row, too.
	tx, err := db.SQL().BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	lock(t, tx, "SELECT max_id FROM leaf_alloc WHERE biz_tag LIKE 'locked%' FOR UPDATE")
	var waiting, served sync.WaitGroup
	var freed atomic.Int64 // locked tags with a segment
	for _, tag := range names("locked", locked) {
		waiting.Go(func() {
			if w.demand(tag, natstest.Patience) < natstest.Patience {
				freed.Add(1)
			}
		})
	}
	natstest.Eventually(t, "a locked row that a load waits for", func() bool { return w.answered()["tag"] > 0 })
	for _, tag := range names("other", others) {
		served.Go(func() {
			for range grants {
				if w.demand(tag, natstest.Patience) == natstest.Patience {
					t.Errorf("%s gets no segment while other rows are locked", tag)
				}
				// Demand recurs.
				time.Sleep(200 * time.Millisecond)
			}
		})
	}
	served.Wait()
	if n := freed.Load(); n > 0 {
		t.Errorf("%d tags got a segment while their rows are locked", n)
	}
	t.Logf("answers: %v", w.answered())
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
	if n := freed.Load(); n != int64(locked) {
		t.Errorf("%d tags got a segment when their rows are free, want %d", n, locked)
	}
}

func lock(t *testing.T, tx *sql.Tx, query string) {
	t.Helper()
	rows, err := tx.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
}

// startLoader starts a loader for a database, and returns its worker.
func startLoader(t *testing.T, dsn string) *fakeWorker {
	t.Helper()
	table, err := storesql.Open(dsn, "leaf_alloc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = table.Close() })
	js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
	if err := register.Create(t.Context(), js, messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	store, err := register.Open(t.Context(), register.Config{JetStream: js, Prefix: messages.DefaultPrefix, Table: table, TableName: "leaf_alloc"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	w := newFakeWorker(Config{
		Store: store, StoreName: dsn[:8], Prefix: messages.DefaultPrefix, Reservations: storesql.Reservations, MaxStep: 1 << 30,
		Timeout: DefaultTimeout, Log: zaptest.NewLogger(t),
	}, &fakeTemplates{})
	w.l.run()
	t.Cleanup(func() {
		w.l.background.Stop()
		w.l.serving.Stop()
	})
	return w
}
