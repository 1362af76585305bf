package clients

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/java"
)

// TestVersions: a client has one version. A commit to release has that of the
// binary; all others are on the way to a later one, with a suffix.
func TestVersions(t *testing.T) {
	binary := versionIn(t, "../../cmd/idworker/version.go", `const version = "(.*)"`)
	reactor, _ := java.Modules(t)
	for language, of := range map[string]struct {
		version, suffix string
		copies          []string
	}{
		"Java": {reactor.Version, "-SNAPSHOT", nil},
		"TypeScript": {
			versionIn(t, filepath.Join(TypeScript, "package.json"), `(?m)^  "version": "(.*)",$`), "-dev.0", lockedVersions(t),
		},
		"Python": {
			versionIn(t, filepath.Join(Python, "pyproject.toml"), `(?m)^version = "(.*)"$`), ".dev0",
			[]string{versionIn(t, filepath.Join(Python, "src/idworker_client/__init__.py"), `(?m)^__version__ = "(.*)"$`)},
		},
	} {
		next, isOnTheWay := strings.CutSuffix(of.version, of.suffix)
		if of.version != binary && (!isOnTheWay || !later(next, binary)) {
			t.Errorf("%s has version %s, cmd/idworker/version.go %s; want the same, or a later one with %s", language, of.version, binary, of.suffix)
		}
		for _, other := range of.copies {
			if other != of.version {
				t.Errorf("%s has version %s, and another of its files %s", language, of.version, other)
			}
		}
	}
}

// versionIn is what a pattern finds in a file.
func versionIn(t *testing.T, path, pattern string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s has no version", path)
	}
	return string(found[1])
}

// TestChartVersion: chart and application have the version of the binary, whose
// image they run.
func TestChartVersion(t *testing.T) {
	binary := versionIn(t, "../../cmd/idworker/version.go", `const version = "(.*)"`)
	for _, key := range []string{"version", "appVersion"} {
		if got := versionIn(t, "../../docs/deploy/chart/Chart.yaml", `(?m)^`+key+`: (.*)$`); got != binary {
			t.Errorf("docs/deploy/chart: %s %s, cmd/idworker/version.go has %s", key, got, binary)
		}
	}
}

// lockedVersions are the two of the TypeScript client in package-lock.json.
func lockedVersions(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(TypeScript, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Version  string
		Packages map[string]struct{ Version string }
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	return []string{lock.Version, lock.Packages[""].Version}
}

// later reports whether a version of three numbers is later than another.
func later(a, b string) bool {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	}) > 0
}
