package conformance

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// client is a client library, as its driver shows it.
type client struct {
	name string
	// start returns the command of the driver, not yet started. It skips the
	// test, with the reason, where the driver cannot run.
	start func(t testing.TB) *exec.Cmd
}

// clientLibraries are all of them.
var clientLibraries = []client{goClient, javaClient, typescriptClient, pythonClient, pythonSyncClient}

// testCase is a promise that every client keeps.
type testCase struct {
	name  string
	needs []string // features
	// run gets the driver that all cases share: a case makes clients with names
	// of its own, by newName.
	run func(t *testing.T, d *driver)
}

// cases are all cases, in the order of the table.
var cases = slices.Concat(
	unitCases,
	scriptedCases,
	realCases,
)

// TestConformance runs each case with each client, and prints a table of them.
func TestConformance(t *testing.T) {
	outcomes := make(map[string]*column)
	for _, c := range clientLibraries {
		outcomes[c.name] = &column{skipped: "its driver did not start, as reported above", cells: make(map[string]string)}
		t.Run(c.name, func(t *testing.T) { runCases(t, c, outcomes[c.name]) })
	}
	t.Log("\n" + table(outcomes))
}

// column is a client's outcomes.
type column struct {
	mu      sync.Mutex
	skipped string            // why no case was run; empty if cases were
	cells   map[string]string // by case
}

// runCases runs all cases with a client.
func runCases(t *testing.T, c client, into *column) {
	d := startDriver(t, c)
	hello := d.must(t, op{"op": "hello"})
	into.skipped = ""
	t.Logf("%s %s: %s", hello.Language, hello.Version, strings.Join(hello.Features, " "))
	t.Run("cases", func(t *testing.T) {
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				missing := slices.DeleteFunc(slices.Clone(tc.needs), func(f string) bool { return slices.Contains(hello.Features, f) })
				t.Cleanup(func() { into.record(t, tc.name, len(missing) > 0) })
				if len(missing) > 0 {
					t.Skipf("%s has no %s", c.name, strings.Join(missing, ", "))
				}
				tc.run(t, d)
			})
		}
	})
}

// record records the outcome of a case that has ended. "later" is one that is
// left to make test-all.
func (c *column) record(t *testing.T, name string, lacksFeature bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case t.Failed():
		c.cells[name] = "FAIL"
	case lacksFeature:
		c.cells[name] = "-"
	case t.Skipped():
		c.cells[name] = "later"
	default:
		c.cells[name] = "ok"
	}
}

// table formats the outcomes: a row for each case, a column for each client.
func table(outcomes map[string]*column) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-60s", "case")
	for _, c := range clientLibraries {
		fmt.Fprintf(&b, " %-10s", c.name)
	}
	for _, tc := range cases {
		fmt.Fprintf(&b, "\n%-60s", tc.name)
		for _, c := range clientLibraries {
			fmt.Fprintf(&b, " %-10s", outcomes[c.name].cells[tc.name])
		}
	}
	for _, c := range clientLibraries {
		if why := outcomes[c.name].skipped; why != "" {
			fmt.Fprintf(&b, "\n%s was not tested: %s", c.name, why)
		}
	}
	return b.String()
}
