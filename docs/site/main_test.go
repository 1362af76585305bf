package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/tier"
)

// repo makes a repository of files in a new folder.
func repo(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := write(filepath.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPrepare(t *testing.T) {
	from := repo(t, map[string]string{
		"README.md":              "",
		"nats.conf":              "",
		"docs/site/zensical.yml": "site_name: x\n",
		"docs/spec/README.md":    "",
		"docs/README.md":         "**Use it**\n\n| page | about |\n|---|---|\n| [A](a.md) | also [b](deep/b.md) |\n| [从 Leaf](zh/c.md) | 页 |\n| [All](../README.md) | x |\n",
		folder + "/a.md":         "[b](deep/b.md#x) [r](../README.md#y) [s](spec) [w](https://nats.io) [h](#here)\n```\n[c](none)\n```\n",
		"docs/deep/b.md":         "[conf](../../nats.conf)",
		"docs/zh/c.md":           "[A](../a.md)",
	})
	to := filepath.Join(t.TempDir(), "to")
	if err := prepare(from, to); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"zensical.yml": "site_name: x\nnav:\n  - Documentation: README.md\n  - Use it:\n    - A: a.md\n    - B: deep/b.md\n    - 从 Leaf: zh/c.md\n",
		"pages/a.md": "[b](deep/b.md#x) [r](" + repository + "/blob/main/README.md#y) [s](" + repository +
			"/tree/main/docs/spec) [w](https://nats.io) [h](#here)\n```\n[c](none)\n```\n",
		"pages/deep/b.md": "[conf](" + repository + "/blob/main/nats.conf)",
	} {
		if text, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(text) != want {
			t.Errorf("%s is %q (%v), want %q", name, text, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(to, "pages/spec")); err == nil {
		t.Error("docs/spec is on the site")
	}
}

func TestProblems(t *testing.T) {
	err := prepare(repo(t, map[string]string{
		"docs/site/zensical.yml": "",
		"docs/README.md":         "[gone](gone.md)",
		folder + "/a.md":         "",
	}), filepath.Join(t.TempDir(), "to"))
	want := "docs/README.md links to gone.md, which does not exist\ndocs/README.md does not list a.md"
	if err == nil || err.Error() != want {
		t.Errorf("prepare: %v, want %s", err, want)
	}
}

// TestSite is make site: each link and anchor of the pages is right.
func TestSite(t *testing.T) {
	tier.All(t)
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	made := exec.CommandContext(t.Context(), "make", "-C", "../..", "site")
	made.Env = append(os.Environ(), "NO_COLOR=1")
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("make site: %v\n%s", err, out)
	}
	page, err := os.ReadFile("../../dist/site/protocol/index.html")
	if err != nil || !strings.Contains(string(page), "Getting started") {
		t.Errorf("the page of the protocol has no navigation (%v)", err)
	}
}
