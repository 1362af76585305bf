package e2e

import (
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
)

// forgetful is a database server as nobody should run one.
type forgetful struct {
	leaftest.Dialect
	start   func(testing.TB, ...string) *dbtest.Server
	lazy    []string // arguments with which it acknowledges before it syncs
	setting string   // the setting's name
	strict  []string
	value   string // that is unsafe
	want    string

	ordinary, bad string // table and one that forgets: part of CREATE TABLE, and what takes its place
	kind          string // what the latter is called
}

var forgetfuls = map[string]forgetful{
	"MySQL": {
		leaftest.MySQL, dbtest.StartMySQLWith, []string{"--innodb-flush-log-at-trx-commit=2"}, "innodb_flush_log_at_trx_commit",
		[]string{"--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1"}, "2", "1", "ENGINE=InnoDB", "ENGINE=MEMORY", "ENGINE=MEMORY",
	},
	"PostgreSQL": {
		leaftest.Postgres, dbtest.StartPostgresWith, []string{"-c", "fsync=off"}, "fsync",
		[]string{"-c", "fsync=on"}, "off", "on", "CREATE TABLE", "CREATE UNLOGGED TABLE", "UNLOGGED",
	},
}

// TestForgetfulDatabase: serve warns once of a server that can lose commits, and the doctor
// fails; of one that cannot, both say nothing. A table that forgets is refused by both.
func TestForgetfulDatabase(t *testing.T) {
	t.Parallel()
	for name, f := range forgetfuls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testForgetfulDatabase(t, f)
		})
	}
}

func testForgetfulDatabase(t *testing.T, f forgetful) {
	ns := natstest.Start(t)
	for _, lazy := range []bool{true, false} {
		args := f.strict
		if lazy {
			args = f.lazy
		}
		srv := f.start(t, args...)
		srv.Exec(t, f.Shapes["official"])
		prefix := map[bool]string{true: "lazy", false: "strict"}[lazy]
		serve := on(srv.DSN()).startWorker(t, ns.URL(), "--prefix", prefix, "--allow-unsynced")
		doctor := func() result {
			return on(srv.DSN()).run(t, "doctor", "--server", ns.URL(), "--role", "loader", "--prefix", prefix)
		}
		found := doctor()
		logged := serve.stderr.String()
		if lazy {
			if strings.Count(logged, unsafeTestDatabase) != 1 || !strings.Contains(logged, f.setting) {
				t.Errorf("serve does not warn once of %s:\n%s", f.setting, logged)
			}
			if line := "FAIL  store durability: " + f.setting + " is " + f.value; found.code == 0 || !strings.Contains(found.stdout, line) ||
				!strings.Contains(found.stdout, "set "+f.setting+" = "+f.want) {
				t.Errorf("doctor (%d) does not say %q:\n%s", found.code, line, found.stdout)
			}
			continue
		}
		if strings.Contains(logged, "\twarn\t") {
			t.Errorf("serve warns of a good database:\n%s", logged)
		}
		if found.code != 0 || !strings.Contains(found.stdout, "ok    store durability: ") {
			t.Errorf("doctor (%d) of a good database:\n%s", found.code, found.stdout)
		}
		serve.kill()

		srv.Exec(t, "DROP TABLE leaf_alloc", strings.Replace(f.Shapes["official"], f.ordinary, f.bad, 1))
		p := on(srv.DSN()).launch(t, "serve", "--server", ns.URL(), "--prefix", prefix)
		if code := p.wait(); code != exitFailure || !strings.Contains(p.stderr.String(), "the table is "+f.kind) {
			t.Errorf("serve of a table that is %s: exit code %d:\n%s", f.kind, code, p.stderr.String())
		}
		found = doctor()
		if found.code == 0 || !strings.Contains(found.stdout, "the table is "+f.kind) {
			t.Errorf("doctor (%d) of a table that is %s:\n%s", found.code, f.kind, found.stdout)
		}
	}
}
