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

// TestPatchesApply: a patch that does not apply plants no bug. Change the code
// around it as the patch does, and put the output of `git diff -U1` into it.
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

// TestProofListsPatches: docs/proof.md says of each patch what its header says,
// and how many there are.
func TestProofListsPatches(t *testing.T) {
	proof, all := readProof(t), readAll(t)
	for _, m := range all {
		row := fmt.Sprintf("| %s | %s | `%s` %s |\n", m.name, m.bug, strings.TrimPrefix(m.pkg, "./"), m.test)
		if !strings.Contains(proof, row) {
			t.Errorf("docs/proof.md lacks the row\n%s", row)
		}
	}
	if want := fmt.Sprintf("# %d planted bugs", len(all)); !strings.Contains(proof, want) {
		t.Errorf("docs/proof.md does not say %q", want)
	}
}

var (
	// As in: `snowflake/lease` TestCopyOfAHolder, TestList.
	named    = regexp.MustCompile("`([\\w/]+)` (Test\\w+(?:, Test\\w+)*)")
	testFunc = regexp.MustCompile(`(?m)^func (Test\w+)`)
)

// TestProofNamesTests: the tests that docs/proof.md names exist, where it says.
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

// testsIn are the names of the tests of a package.
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
