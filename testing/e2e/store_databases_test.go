package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
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

// commandLine is the output of ps; empty once the process has ended.
func (p *process) commandLine() string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.cmd.Process.Pid))
	return string(line)
}

// user makes a user with a single right; the password is the canary.
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

// TestDatabases: idworker on Leaf's table, in each database.
func TestDatabases(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := &databaseSite{database: d, db: d.with(t, "'order', 1, 100"), url: natstest.Start(t).URL()}
			t.Run("comes later, and is away for a while", s.comesAndGoes)
			t.Run("names the remedy", s.namesTheRemedy)
			t.Run("user who may only read", s.reader)
			t.Run("is away", s.isAway)
			t.Run("migrate", s.migrate)
			t.Run("rows come and go", s.rowsComeAndGo)
			t.Run("rows that cannot be served", s.unusableRows)
			t.Run("rows that are no tags", s.otherRows)
			if d.name == "MySQL" {
				t.Run("templates", s.templates)
				t.Run("password with special characters", s.specialPassword)
			}
			t.Run("forgets", s.forgets)
		})
	}
}

// databaseSite is a table of Leaf's, and a NATS server.
type databaseSite struct {
	database
	db  *dbtest.DB
	url string
}

// as is the environment that names both to a process.
func (s *databaseSite) as(dsn string) settings {
	return settings{env: []string{"IDWORKER_STORE=" + dsn, "NATS_URL=" + s.url}}
}

// comesAndGoes starts idworker before its database, where nothing has ever been
// served. Later the database is away while requests for a strict tag fail. All
// that showed the outage shows its end, although no further request comes.
func (s *databaseSite) comesAndGoes(t *testing.T) {
	proxy := proxy.Start(t, s.db.Addr())
	proxy.Refuse()
	as, address := s.as(s.db.DSNVia(proxy)), freeport.Address(t)
	p := as.startWorker(t, s.url, "--http", address, "--wait", "200ms")
	if r := as.run(t, "get", "order"); r.code != exitTryLater {
		t.Errorf("get without a database: %+v", r)
	}
	natstest.Eventually(t, "the log says so", func() bool { return p.says("database does not answer") > 0 })
	proxy.Accept()
	as.succeeds(t, "get", "order")
	if n := p.says("database does not answer"); n != 1 {
		t.Errorf("logged that the database does not answer %d times", n)
	}

	as.mustRun(t, "tag", "create", "strict", "--order", "strict")
	as.succeeds(t, "get", "strict")
	shown := func() (all []string) {
		if _, body := fetch(t, address, "/readyz"); strings.HasPrefix(body, "ready, but ") {
			all = append(all, "readyz")
		}
		if metricsOf(t, address).get("idworker_store_outage") == 1 {
			all = append(all, "metrics")
		}
		for _, command := range []string{"status", "doctor"} {
			if r := as.run(t, command); strings.Contains(r.stdout, "has failed for") {
				all = append(all, command)
			}
		}
		return all
	}
	works := p.says("store works again")
	proxy.Refuse()
	for range 3 {
		as.run(t, "get", "strict", "--timeout", "1s")
	}
	natstest.Eventually(t, "readyz, metrics, status and doctor show the outage", func() bool { return len(shown()) == 4 })
	proxy.Accept()
	natstest.Eventually(t, "none shows it", func() bool { return len(shown()) == 0 })
	if n := p.says("store works again") - works; n != 1 {
		t.Errorf("the log says %d times that the store works again", n)
	}
	p.stop(syscall.SIGTERM)
	p.showsNoPassword()
}

// namesTheRemedy starts idworker on databases that cannot be used. Each error
// names the remedy, and no password, whether the DSN came by environment or
// file. cmd/internal/backend tests malformed DSNs.
func (s *databaseSite) namesTheRemedy(t *testing.T) {
	s.db.Exec(t, "CREATE TABLE other (biz_tag varchar(128), max_id bigint)")
	user := s.user(t, s.db, "n", "SELECT")
	inFile := false
	for name, test := range map[string]struct {
		dsn, table, says string
	}{
		"wrong password":   {s.db.DSNFor(user, canary+"x"), "leaf_alloc", "user or password refused: .*; check the DSN"},
		"missing table":    {s.db.DSN(), "missing", "--migrate creates it"},
		"missing columns":  {s.db.DSN(), "other", "needs the columns biz_tag, max_id and step"},
		"missing database": {strings.Replace(s.db.DSN(), "/"+s.db.Name(), "/no_such_database", 1), "leaf_alloc", "no such database: .*; create it or check the DSN"},
	} {
		for _, command := range []string{"serve", "tag ls"} {
			as, args := settings{}, append(strings.Fields(command), "--server", s.url, "--table", test.table)
			if inFile = !inFile; inFile {
				args = append(args, "--store-file", secretFile(t, test.dsn))
			} else {
				as = on(test.dsn)
			}
			code, says := exitFailure, test.says
			if command == "tag ls" && (test.table != "leaf_alloc" || name == "missing database") {
				code, says = exitUsage, "uses another store" // before it looks for the table or the database
			}
			p := as.launch(t, args...)
			got := p.wait()
			p.showsNoPassword()
			if stderr := p.stderr.String(); got != code || !regexp.MustCompile(says).MatchString(stderr) || strings.Contains(stderr, "goroutine ") {
				t.Errorf("%s, %s: exit code %d, want %d and %q:\n%s", name, command, got, code, says, stderr)
			}
		}
	}
}

func (s *databaseSite) reader(t *testing.T) {
	as := s.as(s.db.DSNFor(s.user(t, s.db, "r", "SELECT"), canary))
	const remedy = "grant the user"
	p := as.launch(t, "serve")
	if code := p.wait(); code != exitFailure || !strings.Contains(p.stderr.String(), remedy+" SELECT, INSERT and UPDATE") {
		t.Errorf("serve: exit code %d: %s", code, p.stderr.String())
	}
	p.showsNoPassword()
	if r := as.run(t, "tag", "ls"); r.code != exitOK || !strings.Contains(r.stdout, "order") {
		t.Errorf("tag ls: %+v", r)
	}
	if r := as.run(t, "tag", "create", "new"); r.code != exitFailure || !strings.Contains(r.stderr, remedy) || strings.Contains(r.stderr, canary) {
		t.Errorf("tag create: %+v", r)
	}
}

// isAway: a database that is away may come back, and serve waits for it.
func (s *databaseSite) isAway(t *testing.T) {
	for _, address := range []string{freeport.Address(t), "no-such-host.invalid:3306"} {
		as := s.as(strings.Replace(s.db.DSN(), s.db.Addr(), address, 1))
		p := as.startWorker(t, s.url, "--log-level", "debug")
		natstest.Eventually(t, "the log says so", func() bool { return p.says("database does not answer") > 0 })
		q := as.launch(t, "tag", "ls")
		if code := q.wait(); code == exitOK || !strings.Contains(q.stderr.String(), "DSN") {
			t.Errorf("tag ls: exit code %d: %s", code, q.stderr.String())
		}
		p.kill()
		p.showsNoPassword()
		q.showsNoPassword()
	}
}

func (s *databaseSite) migrate(t *testing.T) {
	elsewhere := []string{"--prefix", "new", "--table", "made"}
	as := s.as(s.db.DSN())
	p := as.startWorker(t, s.url, append(elsewhere, "--migrate", "--log-level", "debug")...)
	as.mustRun(t, append([]string{"tag", "create", "new"}, elsewhere...)...)
	var n int64
	if err := s.db.SQL().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM made").Scan(&n); err != nil || n != 1 {
		t.Errorf("the table has %d rows, %v, want 1", n, err)
	}
	p.stop(syscall.SIGTERM)
	p.showsNoPassword()
}

// rowsComeAndGo changes Leaf's table as a DBA does. A new row works at its
// first request. A row that was deleted without tag rm is no removed tag: its
// IDs in memory are handed out, then requests fail for now, until tag rm
// decides.
func (s *databaseSite) rowsComeAndGo(t *testing.T) {
	as := s.as(s.db.DSN())
	w := as.startWorker(t, s.url)
	client := dial(t, s.url)
	client.next(t, "order")
	insert(t, s.db, "'invoice', 500, 1000")
	if id := client.next(t, "invoice"); id < 500 {
		t.Errorf("an ID of the inserted row: %d, want one from 500 on", id)
	}
	s.db.Exec(t, "DELETE FROM leaf_alloc WHERE biz_tag = 'invoice'")
	client.next(t, "invoice")
	fails := func(want error) {
		t.Helper()
		natstest.Eventually(t, "a deleted row: "+want.Error(), func() bool {
			_, err := client.once(t, "invoice", 100)
			if errors.Is(err, messages.ErrNoTag) && !errors.Is(want, messages.ErrNoTag) {
				t.Fatal("a tag that was not removed is unknown")
			}
			return errors.Is(err, want)
		})
	}
	fails(messages.ErrUnavailable)
	for _, command := range []string{"status", "doctor"} {
		natstest.Eventually(t, command+" names the tag", func() bool {
			_ = as.run(t, "get", "invoice", "--timeout", "500ms")
			return strings.Contains(as.run(t, command).stdout, "tag invoice: cannot be granted")
		})
	}
	if n := w.says("cannot grant tag"); n != 1 {
		t.Errorf("the log names the tag %d times, want once", n)
	}
	as.mustRun(t, "tag", "rm", "invoice", "--yes")
	fails(messages.ErrNoTag)

	as.mustRun(t, "tag", "create", "basket", "--step", "70", "--first", "1000")
	client.next(t, "basket")
	as.mustRun(t, "tag", "set", "basket", "--step", "80")
	if r := as.run(t, "tag", "ls"); !strings.Contains(r.stdout, "basket  80") {
		t.Errorf("tag ls: %+v", r)
	}
	if n := maxID(t, s.db, "basket"); n < 1070 {
		t.Errorf("max_id of a tag from 1000 on in steps of 70 is %d", n)
	}
	w.stop(syscall.SIGTERM)
}

// unusableRows has rows in the table that cannot be tags: they are listed and
// not served, and the others are.
func (s *databaseSite) unusableRows(t *testing.T) {
	insert(t, s.db, "'leaf segment test', 1, 100", "'shop.*', 1, 100", "'größe', 1, 100", "'a..b', 1, 100",
		"'zero', 1, 0", "'negative', 1, -5", "'below', -7, 100", "'end', 9223372036854775800, 100")
	as := s.as(s.db.DSN())
	w := as.startWorker(t, s.url)
	natstest.Eventually(t, "a row is found to be used up", func() bool { return as.run(t, "get", "end").code == exitExhausted })
	for _, tag := range []string{"zero", "negative", "below"} {
		if r := as.run(t, "get", tag, "--timeout", "1s"); r.code != exitTryLater {
			t.Errorf("get %s: %+v, want exit code %d", tag, r, exitTryLater)
		}
	}
	if r := as.mustRun(t, "tag", "ls"); strings.Count(r.stdout, "unusable: ") != 7 {
		t.Errorf("tag ls shows other rows as unusable than 7:\n%s", r.stdout)
	}
	insert(t, s.db, "'second', 1, 100")
	as.succeeds(t, "get", "second")
	dir := filepath.Join(t.TempDir(), "backup")
	as.mustRun(t, "backup", dir)
	as.mustRun(t, "restore", dir, "--dry-run")
	w.stop(syscall.SIGTERM)
	s.db.Exec(t, "DELETE FROM leaf_alloc WHERE biz_tag <> 'order'")
}

// otherRows has rows in the table whose names are no tags, as Leaf's servers may
// serve them. All tags are raised, backed up, restored and imported as if there
// were no such rows, which stay as they are.
func (s *databaseSite) otherRows(t *testing.T) {
	others := []string{"order:pay", "", "a b", "*", "größe", "twin ", "two\norder 1 9000000000000000000"}
	db, nats := s.with(t, "'order', 1, 100"), natstest.Start(t)
	for _, name := range others {
		insert(t, db, "'"+name+"', 5, 100")
	}
	as := settings{env: []string{"IDWORKER_STORE=" + db.DSN(), "NATS_URL=" + nats.URL()}}
	w := as.startWorker(t, nats.URL())
	as.succeeds(t, "get", "order")
	if r := as.run(t, "get", "order:pay"); r.code != exitUsage {
		t.Errorf("get of a name that is no tag: %+v", r)
	}
	if r := as.mustRun(t, "tag", "ls"); strings.Count(r.stdout, "unusable: ") != len(others) {
		t.Errorf("tag ls shows other rows as unusable than %d:\n%s", len(others), r.stdout)
	}
	const says = "left alone: 7 rows whose biz_tag is not a tag name: "
	if r := as.mustRun(t, "tag", "raise", "--all", "--yes"); !strings.Contains(r.stdout, says) || !strings.Contains(r.stdout, "raising 1 tag to ") {
		t.Errorf("tag raise prints %q, want %q", r.stdout, says)
	}
	as.succeeds(t, "get", "order")
	list := as.mustRun(t, "tag", "export").stdout
	dir := filepath.Join(t.TempDir(), "backup")
	as.mustRun(t, "backup", dir)
	as.mustRun(t, "restore", dir, "--raise-anyway", "--yes")
	js := natstest.JetStream(t, nats.Connect(t))
	if err := js.DeleteStream(t.Context(), registerBucket); err != nil {
		t.Fatal(err)
	}
	as.mustRun(t, "restore", dir, "--yes")
	if r := (settings{env: as.env, stdin: list}).run(t, "tag", "import"); r.code != 0 {
		t.Errorf("import of %q: %+v", list, r)
	}
	as.succeeds(t, "get", "order")
	for _, name := range others {
		if n := maxID(t, db, name); n != 5 {
			t.Errorf("max_id of %q is %d, was 5", name, n)
		}
	}
	if entries, err := kv.Values(t.Context(), js, "ids_register"); err != nil || len(entries) != 1 || entries["order"] == "" {
		t.Errorf("the register has %q, %v", entries, err)
	}
	w.stop(syscall.SIGTERM)
}

// templates: none is made over a table that stores chat.a and chat.A as the
// same tag. The error names the remedy. And a database user needs the right to
// insert.
func (s *databaseSite) templates(t *testing.T) {
	as := s.as(s.db.DSN())
	const folds = "ALTER TABLE leaf_alloc MODIFY biz_tag VARCHAR(128) COLLATE utf8mb4_general_ci NOT NULL DEFAULT ''"
	s.db.Exec(t, folds)
	w := as.startWorker(t, s.url)
	create := []string{"tag", "create", "chat.*", "--template"}
	refused := as.run(t, create...)
	_, statement, found := strings.Cut(strings.TrimSpace(refused.stderr), "ALTER TABLE ")
	if refused.code == 0 || !found {
		t.Fatalf("a template over a table that knows no case: %+v", refused)
	}
	for _, step := range []struct{ alter, want string }{
		{"ALTER TABLE " + statement, "ok    templates: 1,"},
		{folds, "FAIL  templates: "},
		{"ALTER TABLE " + statement, "ok    templates: 1,"},
	} {
		s.db.Exec(t, step.alter)
		_ = as.run(t, create...) // it exists from the second time on
		if r := as.run(t, "doctor"); !strings.Contains(r.stdout, step.want) {
			t.Errorf("after %s, doctor does not say %q:\n%s", step.alter, step.want, r.stdout)
		}
	}
	dial(t, s.url).next(t, "chat.1")
	if n := maxID(t, s.db, "chat.1"); n < 2 {
		t.Errorf("the row of a tag of which an ID was given has %d", n)
	}
	// The words of a trigger, in its own language, reach a caller in one line.
	s.db.Exec(t, "CREATE TRIGGER refuse BEFORE INSERT ON leaf_alloc FOR EACH ROW SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1406, MESSAGE_TEXT = 'stock\\n\\t库存不足\\r\\nis low'")
	const says = "table leaf_alloc, tag chat.2: bad tag definition: Error 1406 (45000): stock ? is low (429)"
	if r := as.run(t, "get", "chat.2", "--timeout", "1s"); r.code != exitTryLater || !strings.Contains(r.stderr, says) {
		t.Errorf("get of a tag that a trigger refuses: %+v, want %q", r, says)
	}
	s.db.Exec(t, "DROP TRIGGER refuse")
	user := s.user(t, s.db, "t", "SELECT, UPDATE")
	if r := s.as(s.db.DSNFor(user, canary)).run(t, "doctor", "--role", "loader"); !strings.Contains(r.stdout, "FAIL  templates: ") {
		t.Errorf("doctor finds nothing wrong with a user who may not insert:\n%s", r.stdout)
	}
	w.stop(syscall.SIGTERM)
}

// specialPassword has every character that means
// something in a DSN, and an embedded NATS server.
func (s *databaseSite) specialPassword(t *testing.T) {
	user, password := s.db.Name()+"_p", canary+`:@/?&%#()"= $x`
	s.db.Exec(t, "CREATE USER '"+user+"'@'%' IDENTIFIED BY '"+password+"'", "GRANT SELECT, INSERT, UPDATE ON leaf_alloc TO '"+user+"'@'%'")
	t.Cleanup(func() { _, _ = s.db.SQL().Exec("DROP USER '" + user + "'@'%'") })
	dsn := fmt.Sprintf("mysql://%s:%s@tcp(%s)/%s", user, password, s.db.Addr(), s.db.Name())
	h := startServer(t, t.TempDir(), "--store-file", secretFile(t, dsn), "--log-level", "debug")
	dial(t, h.url).next(t, "order")
	h.showsNoPassword()
}

// forgets: serve warns once of a server that can lose commits, such as that of
// the tests, and the doctor fails. A table that forgets is refused by both.
func (s *databaseSite) forgets(t *testing.T) {
	setting, want, bad, kind := "innodb_flush_log_at_trx_commit", "1", strings.Replace(s.Shapes["official"], "ENGINE=InnoDB", "ENGINE=MEMORY", 1), "ENGINE=MEMORY"
	if s.name != "MySQL" {
		setting, want, bad, kind = "fsync", "on", strings.Replace(s.Shapes["official"], "CREATE TABLE", "CREATE UNLOGGED TABLE", 1), "UNLOGGED"
	}
	as := s.as(s.db.DSN())
	p := as.startWorker(t, s.url)
	if logged := p.stderr.String(); strings.Count(logged, unsafeTestDatabase) != 1 || !strings.Contains(logged, setting) {
		t.Errorf("serve does not warn once of %s:\n%s", setting, logged)
	}
	doctor := func(text string) {
		t.Helper()
		if r := as.run(t, "doctor", "--role", "loader"); r.code == exitOK || !strings.Contains(r.stdout, text) {
			t.Errorf("doctor does not say %q:\n%s", text, r.stdout)
		}
	}
	doctor("FAIL  store durability: " + setting + " is ")
	doctor("set " + setting + " = " + want)
	p.stop(syscall.SIGTERM)

	s.db.Exec(t, "DROP TABLE leaf_alloc", bad)
	p = as.launch(t, "serve")
	if code := p.wait(); code != exitFailure || !strings.Contains(p.stderr.String(), "the table is "+kind) {
		t.Errorf("serve of a table that is %s: exit code %d:\n%s", kind, code, p.stderr.String())
	}
	doctor("the table is " + kind)
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
