package e2e

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
)

// TestFirstUse: the life of a template, as an administrator and a caller see it.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	t.Run("JetStream", func(t *testing.T) {
		t.Parallel()
		testFirstUse(t, settings{}, natstest.Start(t).URL())
	})
	t.Run("MySQL", func(t *testing.T) {
		t.Parallel()
		db, url := databases[0].find(t), natstest.Start(t).URL()
		db.Exec(t, leaftest.MySQL.Shapes["official"]+" DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci")
		refusesCaseInsensitive(t, db, url)
		testFirstUse(t, on(db.DSN()), url)
		if n := maxID(t, db, "day.20261121"); n < 4 {
			t.Errorf("the row of a sequence that three were asked of has %d", n)
		}
		doctorOnInsert(t, db, url)
	})
}

// doctorOnInsert: with templates, a database user has to be one who may insert.
func doctorOnInsert(t *testing.T, db *dbtest.DB, url string) {
	t.Helper()
	user := db.Name() + "_r"
	db.Exec(t, "CREATE USER '"+user+"'@'%' IDENTIFIED BY 'pw'", "GRANT SELECT, UPDATE ON leaf_alloc TO '"+user+"'@'%'")
	t.Cleanup(func() { _, _ = db.SQL().Exec("DROP USER '" + user + "'@'%'") })
	for dsn, want := range map[string]string{
		db.DSN(): "ok    templates: 2, and their tags can be made in the store\n",
		fmt.Sprintf("mysql://%s:pw@tcp(%s)/%s", user, db.Addr(), db.Name()): "FAIL  templates: ",
	} {
		as := on(dsn)
		as.env = append(as.env, "NATS_URL="+url)
		if r := as.run(t, "doctor", "--role", "loader"); !strings.Contains(r.stdout, want) {
			t.Errorf("doctor does not say %q:\n%s", want, r.stdout)
		}
	}
}

// refusesCaseInsensitive: no template is made over a table that takes chat.a and chat.A for one tag. What mends
// that is said.
func refusesCaseInsensitive(t *testing.T, db *dbtest.DB, url string) {
	t.Helper()
	as := on(db.DSN())
	as.env = append(as.env, "NATS_URL="+url)
	w := as.startWorker(t, url)
	create := []string{"tag", "create", "chat.*", "--template"}
	refused := as.run(t, create...)
	_, statement, found := strings.Cut(strings.TrimSpace(refused.stderr), "ALTER TABLE ")
	if refused.code == 0 || !found {
		t.Fatalf("a template over a table that knows no case (%d): %s%s", refused.code, refused.stdout, refused.stderr)
	}
	const folds = "ALTER TABLE leaf_alloc MODIFY biz_tag VARCHAR(128) COLLATE utf8mb4_general_ci NOT NULL DEFAULT ''"
	for _, step := range []struct{ alter, want string }{
		{"ALTER TABLE " + statement, "ok    templates: 1,"},
		{folds, "FAIL  templates: "},
		{"ALTER TABLE " + statement, "ok    templates: 1,"},
	} {
		db.Exec(t, step.alter)
		_ = as.run(t, create...) // there is one already, from the second time on
		if r := as.run(t, "doctor"); !strings.Contains(r.stdout, step.want) {
			t.Errorf("after %s, doctor does not say %q:\n%s", step.alter, step.want, r.stdout)
		}
	}
	as.mustRun(t, "tag", "rm", "chat.*", "--yes")
	w.stop(syscall.SIGTERM)
}

func testFirstUse(t *testing.T, as settings, url string) {
	t.Helper()
	as.startWorker(t, url)
	as.env = append(as.env, "NATS_URL="+url)
	c := dial(t, url)
	next := func(tag string) int64 {
		t.Helper()
		id, err := c.Next(t.Context(), tag)
		if err != nil {
			t.Fatalf("%s: %v", tag, err)
		}
		return id
	}
	becomes := func(tag string, want error) {
		t.Helper()
		natstest.Eventually(t, tag+": "+want.Error(), func() bool {
			_, err := c.Next(t.Context(), tag)
			return errors.Is(err, want)
		})
	}
	shows := func(args []string, lines ...string) {
		t.Helper()
		out := strings.Split(as.mustRun(t, args...).stdout, "\n")
		for i := range out {
			out[i] = strings.Join(strings.Fields(out[i]), " ")
		}
		if got := strings.TrimSpace(strings.Join(out, "\n")); got != strings.Join(lines, "\n") {
			t.Errorf("idworker %s:\n%s", strings.Join(args, " "), got)
		}
	}
	const header, templates = "TAG STEP NEXT ORDER", "TEMPLATE STEP ORDER TAGS MAX TAGS NEW PER SECOND"

	shows([]string{"tag", "create", "chat.*", "--template", "--step", "10", "--max-tags", "2"},
		"created template chat.*: step 10, order trend, at most 2 tags, at most 1,000 new ones a second")
	natstest.Eventually(t, "the template is known", func() bool {
		id, err := c.Next(t.Context(), "chat.1")
		return err == nil && id == 1
	})
	if a, b := next("chat.1"), next("chat.2"); a != 2 || b != 1 {
		t.Errorf("%d, %d, want 2, 1", a, b)
	}
	becomes("chat.3", messages.ErrBusy)
	says := func(want string, args ...string) {
		t.Helper()
		if r := as.runWith(t, "no", args...); r.code == 0 || !strings.Contains(r.stdout+r.stderr, want) {
			t.Errorf("idworker %s (%d): %s%s, want %q", strings.Join(args, " "), r.code, r.stdout, r.stderr, want)
		}
	}
	says("to have it make more: idworker tag set 'chat.*' --max-tags N", "get", "chat.3")
	says("change it with: idworker tag set chat.1 --step N", "tag", "create", "chat.1")
	says("template exists already: chat.*", "tag", "create", "chat.*", "--template", "--order", "strict")
	says("chat.1 matches the template chat.*: the next request makes it again, above what it had.", "tag", "rm", "chat.1")
	becomes("chat", messages.ErrNoTag)
	shows([]string{"tag", "ls"}, header, "", templates, "chat.* 10 trend 2 2 1000")
	shows([]string{"tag", "ls", "chat.*"}, header, "chat.1 10 11 trend", "chat.2 10 11 trend", "", templates, "chat.* 10 trend 2 2 1000")
	for _, pattern := range []string{"chat.*", "*.1"} {
		if r := as.run(t, "tag", "create", pattern, "--template"); r.code == 0 {
			t.Errorf("%s was created beside chat.*", pattern)
		}
	}
	all := as.mustRun(t, "tag", "export").stdout
	if r := as.runWith(t, all, "tag", "import"); r.code != 0 || as.mustRun(t, "tag", "export").stdout != all {
		t.Errorf("an import of the export (%d) %s%s changed what there is:\n%s", r.code, r.stdout, r.stderr, all)
	}

	shows([]string{"tag", "rm", "chat.*", "--yes"}, "removed template chat.*")
	becomes("chat.1", messages.ErrNoTag)
	shows([]string{"tag", "ls"}, header)
	says("it came of a template that was removed, chat.*; to have it answered, create that again", "tag", "create", "chat.1")
	if r := as.run(t, "tag", "create", "chat.*", "--template", "--order", "strict"); r.code != exitUsage || !strings.Contains(r.stderr, "chat.1") {
		t.Errorf("a strict template over ordinary tags (%d): %s", r.code, r.stderr)
	}
	as.mustRun(t, "tag", "create", "day.*", "--template", "--order", "strict")
	for want := range int64(3) {
		if id := next("day.20261121"); id != want+1 {
			t.Errorf("the ID of a strict sequence is %d, want %d", id, want+1)
		}
	}
	as.mustRun(t, "tag", "create", "chat.*", "--template", "--step", "20")
	shows([]string{"tag", "ls", "chat.*"}, header, "chat.1 20 11 trend", "chat.2 20 11 trend", "", templates, "chat.* 20 trend 2 any 1000")
	says("tags of the template exist that are not strict: chat.1, chat.2;", "tag", "set", "chat.*", "--order", "strict")
	as.mustRun(t, "tag", "set", "chat.1", "--order", "strict")
	says("tags of the template exist that are not strict: chat.2;", "tag", "set", "chat.*", "--order", "strict")
	natstest.Eventually(t, "chat.1 goes on", func() bool {
		id, err := c.Next(t.Context(), "chat.1")
		if err == nil && id < 3 {
			t.Fatalf("chat.1 goes on with %d", id)
		}
		return err == nil
	})
}
