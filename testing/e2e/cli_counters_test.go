package e2e

import (
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

// Counters move up, in every way there is, and never down; a tag that is removed comes back
// above what it had; bad input changes nothing.
func TestCountersOnlyMoveUp(t *testing.T) {
	t.Parallel()
	ns := natstest.Start(t)
	startWorker(t, ns.URL())
	as := settings{env: []string{"NATS_URL=" + ns.URL()}}
	as.mustRun(t, "tag", "create", "order", "--step", "10")
	as.mustRun(t, "tag", "create", "invoice", "--step", "10", "--first", "77")

	says := func(want string, args ...string) {
		t.Helper()
		if r := as.mustRun(t, args...); strings.TrimSpace(r.stdout) != want {
			t.Errorf("idworker %s: %q, want %q", strings.Join(args, " "), r.stdout, want)
		}
	}
	says("tag order: next ID 5000, was 1", "tag", "raise", "order", "--next", "5000")
	says("tag order: next ID 5000, as it was", "tag", "raise", "order", "--next", "50")
	says("tag order: next ID 5100, was 5000", "tag", "raise", "order", "--by", "100")
	says("tag invoice: next ID 1077, was 77\ntag order: next ID 6100, was 5100", "tag", "raise", "--all", "--by", "1000")
	says("invoice 10 1077\norder 10 6100", "tag", "export")
	says("6100", "get", "order")

	refuses := func(want string, code int, in string, args ...string) {
		t.Helper()
		r := as.runWith(t, in, args...)
		if r.code != code || !strings.Contains(r.stderr, want) {
			t.Errorf("idworker %s (%d): %q, want %d and %q", strings.Join(args, " "), r.code, r.stderr, code, want)
		}
	}
	refuses("want either a tag or --all", exitUsage, "", "tag", "raise", "--by", "1")
	refuses("want either --next ID or --by N", exitUsage, "", "tag", "raise", "order")
	refuses("want either --next ID or --by N", exitUsage, "", "tag", "raise", "order", "--by=-5")
	refuses("--all goes with --by", exitUsage, "", "tag", "raise", "--all", "--next", "5")
	refuses("no such tag: nosuch", exitNoTag, "", "tag", "raise", "nosuch", "--by", "1")
	refuses("exhausted", 1, "", "tag", "raise", "order", "--by", "9223372036854775807")
	refuses("line 2", exitUsage, "other 10 1\norder ten 5\n", "tag", "import")
	refuses("stands there twice", exitUsage, "other 10 1\nother 10 2\n", "tag", "import")
	refuses("makes it the line of a template", exitUsage, "order* 10 1\n", "tag", "import")
	refuses("cut off", exitUsage, "other 10 100", "tag", "import")
	refuses("did the export fail?", exitUsage, "# nothing\n", "tag", "import")
	refuses("leaves no room", exitUsage, "", "tag", "raise", "order", "--next", "9223372036854775807")
	refuses("too many for all tags", exitUsage, "", "tag", "raise", "--all", "--by", "9223372036854775807")
	refuses("that is not its name", exitUsage, "orders\n", "tag", "rm", "order")

	if r := as.runWith(t, "# comment\n\norder 99 7000\ninvoice 10 5\nshop 20 300\n", "tag", "import"); r.code != 0 ||
		!strings.HasPrefix(r.stdout, "tag order: next ID 7000, was 61") ||
		!strings.HasSuffix(r.stdout, "\ntag invoice: next ID 1077, as it was\ncreated tag shop: next ID 300\n") {
		t.Errorf("import (%d): %q %s", r.code, r.stdout, r.stderr)
	}
	says("invoice 10 1077\norder 10 7000\nshop 20 300", "tag", "export")

	if r := as.runWith(t, "order\n", "tag", "rm", "order"); r.code != 0 || !strings.HasSuffix(r.stdout, "removed tag order\n") {
		t.Errorf("rm (%d): %q %s", r.code, r.stdout, r.stderr)
	}
	refuses("IDs below 7000 had been handed out", exitUsage, "", "tag", "create", "order")
	refuses("no such tag", exitNoTag, "", "tag", "rm", "order", "--yes")
	as.mustRun(t, "tag", "create", "order", "--first", "7000")
}

// What is remembered of removed tags goes with the others: a raise raises it, and an import brings it.
func TestRemovedTagsAreNotForgotten(t *testing.T) {
	t.Parallel()
	for name, stores := range map[string][2]settings{
		"JetStream to PostgreSQL": {{}, on(databases[1].with(t).DSN())},
		"MySQL to JetStream":      {on(databases[0].with(t).DSN()), {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := func(s settings) settings {
				ns := natstest.Start(t)
				s.startWorker(t, ns.URL())
				return settings{env: append([]string{"NATS_URL=" + ns.URL()}, s.env...)}
			}
			from, to := at(stores[0]), at(stores[1])
			refusesBelow := func(s settings, floor string) {
				t.Helper()
				if r := s.run(t, "tag", "create", "gone"); r.code == 0 || !strings.Contains(r.stderr, "IDs below "+floor+" ") {
					t.Errorf("create (%d): %s, want a refusal that names %s", r.code, r.stderr, floor)
				}
			}
			from.mustRun(t, "tag", "create", "gone", "--first", "500")
			from.mustRun(t, "tag", "create", "full", "--first", "9223372036854770000")
			from.mustRun(t, "tag", "rm", "gone", "--yes")
			refusesBelow(from, "500")
			r := from.mustRun(t, "tag", "raise", "--all", "--by", "1000000")
			if !strings.Contains(r.stdout, "removed tag gone: can be created again with --first 1000500 or above") ||
				!strings.Contains(r.stdout, "tag full: next ID 9223372036854775807") {
				t.Errorf("raise: %s", r.stdout)
			}
			refusesBelow(from, "1000500")

			list := from.mustRun(t, "tag", "export").stdout
			if !strings.HasSuffix(list, "gone removed 1000500\n") {
				t.Errorf("export: %s", list)
			}
			for range 2 { // the second time it is remembered
				if r := to.runWith(t, list, "tag", "import"); r.code != 0 {
					t.Errorf("import (%d): %s", r.code, r.stderr)
				}
				refusesBelow(to, "1000500")
			}
			if ls := to.mustRun(t, "tag", "ls").stdout; strings.Contains(ls, "gone") {
				t.Errorf("ls: %s", ls)
			}
		})
	}
}
