package e2e

import (
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

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
