package browser

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

//go:embed package.json
var packageJSON []byte

//go:embed package-lock.json
var packageLock []byte

// axe is the source of axe-core, which looks for what keeps people with disabilities from using a page. It is
// installed from the npm registry.
var axe = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "idworker-axe")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for name, data := range map[string][]byte{"package.json": packageJSON, "package-lock.json": packageLock} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	source, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	return string(source), err
})

// CheckAccess fails the test for each thing that axe-core finds on the page in a tab.
func CheckAccess(t testing.TB, tab context.Context, what string) {
	t.Helper()
	source, err := axe()
	if err != nil {
		missing(t, "axe-core does not look at the page", err)
	}
	if _, err := chromedp.Run(tab, chromedp.Evaluate[chromedp.Void](source)); err != nil {
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

// violation is something that axe-core finds.
type violation struct {
	ID    string   `json:"id"`
	Help  string   `json:"help"`
	Nodes []string `json:"nodes"` // where, and why
}
