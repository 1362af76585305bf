package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// project is the root of the module.
const project = "../.."

func readAll(t *testing.T) []mutant {
	t.Helper()
	all, err := readMutants("patches", regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestPatchesApply checks that each patch applies. To repair one, make its
// change in the code and replace its diff with the output of `git diff -U1`.
func TestPatchesApply(t *testing.T) {
	for _, m := range readAll(t) {
		cmd := exec.Command("git", "apply", "--check", filepath.Join("testing/mutants", m.path))
		cmd.Dir = project
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", m.name, err, out)
		}
	}
}

func readProof(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(project, "docs", "proof.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPatchesNameTests checks that the test named in each patch's header
// exists.
func TestPatchesNameTests(t *testing.T) {
	for _, m := range readAll(t) {
		test, _, _ := strings.Cut(m.test, "/")
		if !slices.Contains(testsIn(t, filepath.Join(project, m.pkg)), test) {
			t.Errorf("%s: %s has no %s", m.name, m.pkg, m.test)
		}
	}
}

// TestProofCountsPatches checks the number of patches in docs/proof.md.
func TestProofCountsPatches(t *testing.T) {
	if want := fmt.Sprintf(" %d planted bugs", len(readAll(t))); !strings.Contains(readProof(t), want) {
		t.Errorf("docs/proof.md lacks %q", want)
	}
}

var (
	// As in: `snowflake/lease` TestCopyOfAHolder, TestList.
	named    = regexp.MustCompile("`([\\w/]+)` (Test\\w+(?:, Test\\w+)*)")
	testFunc = regexp.MustCompile(`(?m)^func (Test\w+)`)
)

// TestProofNamesTests checks that the tests named in docs/proof.md exist in the
// packages named there.
func TestProofNamesTests(t *testing.T) {
	found := named.FindAllStringSubmatch(readProof(t), -1)
	if len(found) < 20 {
		t.Errorf("only %d packages with tests", len(found))
	}
	for _, f := range found {
		there := testsIn(t, filepath.Join(project, f[1]))
		for name := range strings.SplitSeq(f[2], ", ") {
			if !slices.Contains(there, name) {
				t.Errorf("%s has no %s", f[1], name)
			}
		}
	}
}

// testsIn returns the names of a package's tests.
func testsIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	return names
}
