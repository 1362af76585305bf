package bench

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// tableTags is how many rows Leaf's table has.
const tableTags = 100_000

// BenchmarkTagTable is a table with 100,000 tags: how long the first loader takes to
// mirror it into an empty directory, how long a worker takes to start beside it, and
// how long it takes until a new row is served when the table is read every second.
func BenchmarkTagTable(b *testing.B) {
	for _, d := range databases {
		b.Run(d.name, func(b *testing.B) {
			db := d.start(b)
			leaf := openTable(b, db.DB)
			fillTable(b, db.SQL())
			srv := natstest.Start(b)
			s := openRegister(b, controlJetStream(b, srv), messages.DefaultPrefix, leaf)

			begin := time.Now()
			loader := startTableWorker(b, srv, worker.Config{Role: worker.RoleLoader, Store: s, StoreName: d.name, TagRefresh: time.Second})
			defer stopWorker(b, loader)
			directorySize(b, srv, tableTags)
			mirrored := time.Since(begin)

			begin = time.Now()
			w := startTableWorker(b, srv, worker.Config{Role: worker.RoleWorker})
			defer stopWorker(b, w)
			started := time.Since(begin)

			begin = time.Now()
			db.Exec(b, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('new', 1, 1000)")
			directorySize(b, srv, tableTags+1)
			refreshed := time.Since(begin)

			for what, took := range map[string]time.Duration{"mirror": mirrored, "start": started, "refresh": refreshed} {
				b.ReportMetric(took.Seconds(), what+"-s")
				table.add(row{what: fmt.Sprintf("%s of %d tags, %s", what, tableTags, d.name), unit: "s", subject: took.Seconds()})
			}
		})
	}
}

func fillTable(b *testing.B, db *sql.DB) {
	b.Helper()
	const perInsert = 1000
	for i := 0; i < tableTags; i += perInsert {
		var rows []string
		for j := range perInsert {
			rows = append(rows, fmt.Sprintf("('service-%d.table-%d', 1, 1000)", i/perInsert, j))
		}
		if _, err := db.ExecContext(b.Context(), "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES "+strings.Join(rows, ",")); err != nil {
			b.Fatal(err)
		}
	}
}

func startTableWorker(b *testing.B, srv *natstest.Server, cfg worker.Config) *worker.Process {
	b.Helper()
	cfg.Requests, cfg.Control, cfg.Version = srv.Connect(b), srv.Connect(b), "0.0.1"
	w, err := worker.Start(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	return w
}

func stopWorker(b *testing.B, w *worker.Process) {
	if err := w.Stop(); err != nil {
		b.Error(err)
	}
}

// directorySize waits until the directory has that many tags.
func directorySize(b *testing.B, srv *natstest.Server, n uint64) {
	b.Helper()
	js := natstest.JetStream(b, srv.Connect(b))
	natstest.Eventually(b, "the directory to be complete", func() bool {
		stream, err := js.Stream(b.Context(), "KV_"+worker.TagsBucketName(messages.DefaultPrefix))
		return err == nil && stream.CachedInfo().State.NumSubjects >= n
	})
}
