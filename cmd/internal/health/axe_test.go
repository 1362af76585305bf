//go:build all

package health

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/idworker/idworker/testing/deps"
)

// checkAccess fails the test for each violation that axe-core finds in a tab.
func checkAccess(t testing.TB, tab context.Context, what string) {
	t.Helper()
	// Axe-core finds barriers for people with disabilities.
	source, err := os.ReadFile(filepath.Join(deps.Axe.Require(t), "axe-core", "axe.min.js"))
	if err != nil {
		deps.Axe.Missing(t, err)
	}
	if _, err := chromedp.Run(tab, chromedp.Evaluate[chromedp.Void](string(source))); err != nil {
		t.Fatalf("axe-core: %v", err)
	}
	found, err := chromedp.Run(tab, chromedp.Evaluate[[]violation](`axe.run().then(r => r.violations.map(
		v => ({id: v.id, help: v.help, nodes: v.nodes.map(n => n.html + "\n" + n.failureSummary)})))`, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("axe-core: %v", err)
	}
	for _, v := range found {
		t.Errorf("%s: axe-core %s: %s\n%s", what, v.ID, v.Help, strings.Join(v.Nodes[:min(3, len(v.Nodes))], "\n"))
	}
}

// violation is a finding of axe-core.
type violation struct {
	ID    string   `json:"id"`
	Help  string   `json:"help"`
	Nodes []string `json:"nodes"` // elements and reasons
}
