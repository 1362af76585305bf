package e2e

import (
	"errors"
	"strings"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// TestFirstUse: the life of a template, as an administrator and a caller see it.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	t.Run("JetStream", func(t *testing.T) {
		t.Parallel()
		testFirstUse(t, settings{}, func(string) int64 { return 0 })
	})
	t.Run("MySQL", func(t *testing.T) {
		t.Parallel()
		db := databases[0].with(t)
		testFirstUse(t, on(db.DSN()), func(tag string) int64 { return maxID(t, db, tag) })
	})
}

func testFirstUse(t *testing.T, as settings, row func(tag string) int64) {
	ns := natstest.Start(t)
	as.startWorker(t, ns.URL())
	as.env = append(as.env, "NATS_URL="+ns.URL())
	c := dial(t, ns.URL())
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
		natstest.Eventually(t, readyWithin, tag+": "+want.Error(), func() bool {
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
		"created template chat.*: step 10, order trend, 2 tags, any new ones a second")
	natstest.Eventually(t, readyWithin, "the template is known", func() bool {
		id, err := c.Next(t.Context(), "chat.1")
		return err == nil && id == 1
	})
	if a, b := next("chat.1"), next("chat.2"); a != 2 || b != 1 {
		t.Errorf("%d, %d, want 2, 1", a, b)
	}
	if n := row("chat.1"); n != 0 && n != 11 {
		t.Errorf("the row of chat.1 has %d, want 11", n)
	}
	becomes("chat.3", messages.ErrBusy)
	becomes("chat", messages.ErrNoTag)
	shows([]string{"tag", "ls"}, header, "", templates, "chat.* 10 trend 2 2 any")
	shows([]string{"tag", "ls", "chat.*"}, header, "chat.1 10 11 trend", "chat.2 10 11 trend", "", templates, "chat.* 10 trend 2 2 any")
	if r := as.mustRun(t, "doctor", "--role", "loader"); !strings.Contains(r.stdout, "ok    templates: 1, and their tags can be made in the store\n") {
		t.Errorf("doctor says nothing of templates:\n%s", r.stdout)
	}
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
	if r := as.run(t, "tag", "create", "chat.*", "--template", "--order", "strict"); r.code != exitUsage || !strings.Contains(r.stderr, "chat.1") {
		t.Errorf("a strict template over ordinary tags (%d): %s", r.code, r.stderr)
	}
	as.mustRun(t, "tag", "create", "day.*", "--template", "--order", "strict")
	for want := range int64(3) {
		if id := next("day.20261121"); id != want+1 {
			t.Errorf("the ID of a strict sequence is %d, want %d", id, want+1)
		}
	}
	as.mustRun(t, "tag", "create", "chat.*", "--template", "--step", "10")
	natstest.Eventually(t, readyWithin, "chat.1 goes on", func() bool {
		id, err := c.Next(t.Context(), "chat.1")
		if err == nil && id < 3 {
			t.Fatalf("chat.1 goes on with %d", id)
		}
		return err == nil
	})
}
