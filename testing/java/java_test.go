package java

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReactor: the tests of all modules pass, with the real binary.
func TestReactor(t *testing.T) { Maven(t, "verify") }

// TestVersion: all modules have one version. A commit to release has that of
// the binary; all others are on the way to a later one, with -SNAPSHOT.
func TestVersion(t *testing.T) {
	source, err := os.ReadFile("../../cmd/idworker/version.go")
	if err != nil {
		t.Fatal(err)
	}
	binary := string(regexp.MustCompile(`const version = "(.*)"`).FindSubmatch(source)[1])
	parent, modules := Modules(t)
	next, snapshot := strings.CutSuffix(parent.Version, "-SNAPSHOT")
	if parent.Version != binary && (!snapshot || !later(next, binary)) {
		t.Errorf("the reactor has version %s, cmd/idworker/version.go %s; want the same, or a later one with -SNAPSHOT", parent.Version, binary)
	}
	for _, m := range modules {
		if m.Version != "" || m.Parent != parent.Version {
			t.Errorf("%s: version %q, parent %s; want its parent's, %s", m.Artifact, m.Version, m.Parent, parent.Version)
		}
	}
}

// later reports whether a version of three numbers is later than another.
func later(a, b string) bool {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	}) > 0
}

// TestBOM: the BOM names exactly the jars that are published.
func TestBOM(t *testing.T) {
	var published, managed []string
	_, modules := Modules(t)
	for _, m := range modules {
		if !m.Private && m.Packaging != "pom" {
			published = append(published, m.Artifact)
		}
		if m.Artifact == "idworker-bom" {
			for _, d := range m.Managed {
				managed = append(managed, d.Artifact)
			}
		}
	}
	slices.Sort(published)
	slices.Sort(managed)
	if !slices.Equal(managed, published) {
		t.Errorf("the BOM names %v; the reactor publishes %v", managed, published)
	}
}
