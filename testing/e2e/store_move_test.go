package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// TestNoDuplicateWhileCountersMove follows "Moving the counters" of
// docs/backup-restore.md, from MySQL to JetStream, on to PostgreSQL and back to
// MySQL, while the workers continue, and from there to another installation.
// The procedure's forbidden steps are refused: importing while a loader runs,
// and a loader with the old store.
func TestNoDuplicateWhileCountersMove(t *testing.T) {
	t.Parallel()
	const tag = "order"
	mysql := databases[0].with(t, "'"+tag+"', 1, 2000")
	postgres := databases[1].with(t)
	ns := natstest.Start(t)
	workers := []*process{
		startWorker(t, ns.URL(), "--role", "worker", "--max-step", "4000", "--max-batch", "1000"),
		startWorker(t, ns.URL(), "--role", "worker", "--max-step", "4000", "--max-batch", "1000"),
	}
	loader := on(mysql.DSN()).startWorker(t, ns.URL(), "--role", "loader", "--max-step", "4000", "--max-batch", "1000")
	heldByAll(t, ns.URL(), tag, 2)
	c := startCallers(t, ns.URL(), load{callers: 4, tags: []string{tag}, maxBatch: 100})
	c.more(2_000)

	from := on(mysql.DSN())
	for _, to := range []settings{{}, on(postgres.DSN()), on(mysql.DSN())} {
		env := []string{"NATS_URL=" + ns.URL()}
		old, next := settings{env: append(env, from.env...)}, settings{env: append(env, to.env...)}
		file := filepath.Join(t.TempDir(), "tags.txt")
		export := func() {
			t.Helper()
			r := old.mustRun(t, "tag", "export")
			if err := os.WriteFile(file, []byte(r.stdout), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		export()
		if r := next.run(t, "tag", "import", file); r.code == 0 || !strings.Contains(r.stderr, "uses another store") {
			t.Errorf("import into another store (%d): %s", r.code, r.stderr)
		}
		if r := next.run(t, "tag", "import", "--switch-store", file); r.code == 0 || !strings.Contains(r.stderr, "stop them, export again") {
			t.Errorf("import while a loader runs (%d): %s", r.code, r.stderr)
		}
		loader.stop(syscall.SIGTERM)
		export()
		if to.env == nil { // counters in JetStream need their bucket
			next.mustRun(t, "provision", "--part", "ids")
		}
		next.mustRun(t, "tag", "import", "--switch-store", file)
		if r := old.run(t, "serve", "--role", "loader"); r.code == 0 || !strings.Contains(r.stderr, "uses another store") {
			t.Errorf("a loader with the old store (%d): %s", r.code, r.stderr)
		}
		loader = to.startWorker(t, ns.URL(), "--role", "loader", "--max-step", "4000", "--max-batch", "1000")
		c.more(2_000)
		from = to
	}
	c.finish()

	// To another installation, and on to another prefix of that.
	loader.stop(syscall.SIGTERM)
	file := filepath.Join(t.TempDir(), "tags.txt")
	other := natstest.Start(t).URL()
	old := settings{env: append(from.env, "NATS_URL="+ns.URL())}
	for _, prefix := range []string{"ids", "other"} {
		if err := os.WriteFile(file, []byte(old.mustRun(t, "tag", "export").stdout), 0o600); err != nil {
			t.Fatal(err)
		}
		old = settings{env: []string{"NATS_URL=" + other, "IDWORKER_PREFIX=" + prefix}}
		old.mustRun(t, "provision", "--part", "ids")
		old.mustRun(t, "tag", "import", file)
		p := old.launch(t, "serve")
		p.serving()
		ranges, err := messages.DecodeRanges([]byte(strings.TrimSpace(old.succeeds(t, "get", "--ranges", tag, "1000").stdout)), 1000)
		if err != nil {
			t.Fatal(err)
		}
		c.ledgers[tag].add(ranges)
		p.stop(syscall.SIGTERM)
	}
	c.ledgers.check(t)
	for _, w := range workers {
		w.stop(syscall.SIGTERM)
	}
}
