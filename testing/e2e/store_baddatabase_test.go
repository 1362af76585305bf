package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
)

// canary is a password that must not appear anywhere.
const canary = "Canary-e2e-51ab"

// showsNoPassword fails the test if a process shows a password.
func (p *process) showsNoPassword() {
	p.t.Helper()
	for where, text := range map[string]string{"stdout": p.stdout.String(), "stderr": p.stderr.String(), "the command line": p.commandLine()} {
		if strings.Contains(text, "anary-") { // dbtest's own, too
			p.t.Errorf("idworker %s shows a password on %s:\n%s", p.name, where, text)
		}
	}
}

// commandLine is what ps shows; nothing once the process has ended.
func (p *process) commandLine() string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.cmd.Process.Pid))
	return string(line)
}

// user makes a user who may do one thing; the password is the canary.
func (d database) user(t testing.TB, db *dbtest.DB, name, grant string) (user string) {
	t.Helper()
	user = db.Name() + "_" + name
	if d.name == "MySQL" {
		db.Exec(t, "CREATE USER '"+user+"'@'%' IDENTIFIED BY '"+canary+"'", "GRANT "+grant+" ON leaf_alloc TO '"+user+"'@'%'")
		t.Cleanup(func() { _, _ = db.SQL().Exec("DROP USER '" + user + "'@'%'") })
		return user
	}
	db.Exec(t, "CREATE USER "+user+" PASSWORD '"+canary+"'", "GRANT "+grant+" ON leaf_alloc TO "+user)
	t.Cleanup(func() { _, _ = db.SQL().Exec("DROP OWNED BY " + user + "; DROP USER " + user) })
	return user
}

// TestBadDatabaseNamesTheRemedy starts idworker on databases that cannot be used. Each error
// names the remedy, and no password, whether the DSN came by environment or file.
func TestBadDatabaseNamesTheRemedy(t *testing.T) {
	t.Parallel()
	eachDatabase(t, testBadDatabase)
}

func testBadDatabase(t *testing.T, d database) {
	t.Parallel()
	db := d.with(t, "'order', 1, 100")
	db.Exec(t, "CREATE TABLE other (biz_tag varchar(128), max_id bigint)")
	reader := d.user(t, db, "r", "SELECT")
	ns := natstest.Start(t)
	on(db.DSN()).startWorker(t, ns.URL()).kill() // makes the directory
	scheme, rest, _ := strings.Cut(db.DSNFor(reader, canary), "://")
	swap := func(what, by string) string { return scheme + "://" + strings.Replace(rest, what, by, 1) }
	nobody := freeAddress(t)

	for name, test := range map[string]struct {
		dsn, table string
		code       int
		says       string
	}{
		"no scheme":        {rest, "leaf_alloc", exitUsage, "mysql://user:password@tcp(host:port)/db"},
		"unknown scheme":   {"oracle://" + rest, "leaf_alloc", exitUsage, "postgres://user:password@host:port/db"},
		"malformed DSN":    {scheme + "://u:" + canary + "@:::/db", "leaf_alloc", exitUsage, "malformed DSN, expected " + scheme + "://"},
		"malformed table":  {db.DSN(), "a b", exitUsage, "malformed table name"},
		"wrong password":   {db.DSNFor(reader, canary+"x"), "leaf_alloc", exitFailure, "refused user or password, check both in the DSN"},
		"missing table":    {db.DSN(), "missing", exitFailure, "--migrate creates it"},
		"missing columns":  {db.DSN(), "other", exitFailure, "needs the columns biz_tag, max_id and step"},
		"missing database": {strings.Replace(db.DSN(), "/"+db.Name(), "/no_such_database", 1), "leaf_alloc", exitFailure, "create the database, or check its name in the DSN"},
	} {
		for _, command := range []string{"serve", "tag ls"} {
			for _, by := range []string{"environment", "file"} {
				t.Run(name+"/"+command+"/"+by, func(t *testing.T) {
					s, args := settings{}, append(strings.Fields(command), "--server", ns.URL(), "--table", test.table)
					if by == "file" {
						args = append(args, "--store-file", secretFile(t, test.dsn))
					} else {
						s = on(test.dsn)
					}
					wantCode, says := test.code, test.says
					if command == "tag ls" && wantCode != exitUsage && (test.table != "leaf_alloc" || name == "missing database") {
						wantCode, says = exitUsage, "counts in another store" // said before the table or the database is looked for
					}
					p := s.launch(t, args...)
					code := p.wait()
					p.showsNoPassword()
					if stderr := p.stderr.String(); code != wantCode || !strings.Contains(stderr, says) || strings.Contains(stderr, "goroutine ") {
						t.Errorf("exit code %d, want %d and %q:\n%s", code, wantCode, says, stderr)
					}
				})
			}
		}
	}

	t.Run("user who may only read", func(t *testing.T) {
		s := on(db.DSNFor(reader, canary))
		p := s.launch(t, "serve", "--server", ns.URL())
		if code := p.wait(); code != exitFailure || !strings.Contains(p.stderr.String(), "grant the user SELECT, INSERT and UPDATE") {
			t.Errorf("serve: exit code %d", code)
		}
		p.showsNoPassword()
		if r := s.run(t, "tag", "ls", "--server", ns.URL()); r.code != exitOK || !strings.Contains(r.stdout, "order") {
			t.Errorf("tag ls: %+v", r)
		}
		r := s.run(t, "tag", "create", "--server", ns.URL(), "new")
		if r.code != exitFailure || !strings.Contains(r.stderr, "grant the user") || strings.Contains(r.stderr, canary) {
			t.Errorf("tag create: %+v", r)
		}
	})

	// A database that is away may come back: serve waits for it.
	for name, address := range map[string]string{"nobody listens": nobody, "unknown host": "no-such-host.invalid:3306"} {
		t.Run(name, func(t *testing.T) {
			s := on(swap(db.Addr(), address))
			p := s.startWorker(t, ns.URL(), "--log-level", "debug")
			natstest.Eventually(t, "the log says so", func() bool { return p.says("database does not answer") == 1 })
			p.showsNoPassword()
			q := s.launch(t, "tag", "ls", "--server", ns.URL())
			if code := q.wait(); code == exitOK || !strings.Contains(q.stderr.String(), "DSN") {
				t.Errorf("tag ls: exit code %d: %s", code, q.stderr.String())
			}
			q.showsNoPassword()
		})
	}

	t.Run("file is missing", func(t *testing.T) {
		r := run(t, "serve", "--server", ns.URL(), "--store-file", filepath.Join(t.TempDir(), "dsn"))
		if r.code != exitUsage || !strings.Contains(r.stderr, "--store-file") {
			t.Errorf("%+v", r)
		}
	})

	t.Run("migrate", func(t *testing.T) {
		p := on(db.DSN()).startWorker(t, ns.URL(), "--prefix", "new", "--table", "made", "--migrate", "--log-level", "debug")
		p.showsNoPassword()
		if r := on(db.DSN()).run(t, "tag", "create", "--server", ns.URL(), "--prefix", "new", "--table", "made", "new"); r.code != exitOK {
			t.Errorf("tag create: %+v", r)
		}
		var n int64
		if err := db.SQL().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM made").Scan(&n); err != nil || n != 1 {
			t.Errorf("the table has %d rows, %v, want 1", n, err)
		}
	})
}

// secretFile holds a DSN.
func secretFile(t testing.TB, dsn string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(path, []byte(dsn+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDatabaseMayComeLater starts idworker before its database, on a machine where
// nothing has ever been served.
func TestDatabaseMayComeLater(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, d database) {
		t.Parallel()
		db := d.with(t, "'order', 1, 100")
		proxy := dbtest.StartProxy(t, db.Addr())
		proxy.Refuse()
		ns := natstest.Start(t)
		p := on(db.DSNVia(proxy)).startWorker(t, ns.URL())
		get := func() result { return run(t, "get", "--server", ns.URL(), "order") }
		if r := get(); r.code != exitNoTag { // none is known
			t.Errorf("get without a database: %+v", r)
		}
		proxy.Accept()
		back := time.Now()
		natstest.Eventually(t, "IDs are there", func() bool { return get().code == exitOK })
		t.Logf("IDs %v after the database came", time.Since(back).Round(time.Millisecond))
		p.showsNoPassword()
		for line, n := range p.logged(0) {
			if n > 1 {
				t.Errorf("logged %q %d times", line, n)
			}
		}
	})
}

// TestPasswordsWithSpecialCharacters has a password with every character that means
// something in a DSN, and an embedded NATS server.
func TestPasswordsWithSpecialCharacters(t *testing.T) {
	t.Parallel()
	db := dbtest.MySQL(t)
	db.Exec(t, databases[0].Shapes["official"])
	insert(t, db, "'order', 1, 100")
	user, password := db.Name()+"_p", canary+`:@/?&%#()"= $x`
	db.Exec(t, "CREATE USER '"+user+"'@'%' IDENTIFIED BY '"+password+"'", "GRANT SELECT, INSERT, UPDATE ON leaf_alloc TO '"+user+"'@'%'")
	t.Cleanup(func() { _, _ = db.SQL().Exec("DROP USER '" + user + "'@'%'") })
	host, port, err := net.SplitHostPort(db.Addr())
	if err != nil {
		t.Fatal(err)
	}
	dsn := fmt.Sprintf("mysql://%s:%s@tcp(%s:%s)/%s", user, password, host, port, db.Name())
	s := startServer(t, t.TempDir(), "--store-file", secretFile(t, dsn), "--log-level", "debug")
	natstest.Eventually(t, "the tag is served", func() bool { return run(t, "get", "--server", s.url, "order").code == exitOK })
	s.showsNoPassword()
}
