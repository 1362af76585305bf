package java

import (
	"cmp"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pom is what these tests read of a module's POM.
type pom struct {
	Artifact  string   `xml:"artifactId"`
	Version   string   `xml:"version"`
	Parent    string   `xml:"parent>version"`
	Packaging string   `xml:"packaging"`
	Modules   []string `xml:"modules>module"`
	Private   bool     `xml:"properties>maven.deploy.skip"`
	Managed   []string `xml:"dependencyManagement>dependencies>dependency>artifactId"`
}

func readPOM(t *testing.T, module string) (p pom) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(reactor, module, "pom.xml"))
	if err == nil {
		err = xml.Unmarshal(data, &p)
	}
	if err != nil {
		t.Fatalf("POM of module %q: %v", module, err)
	}
	return p
}

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
	parent := readPOM(t, ".")
	next, snapshot := strings.CutSuffix(parent.Version, "-SNAPSHOT")
	if parent.Version != binary && (!snapshot || !later(next, binary)) {
		t.Errorf("the parent POM has version %s, cmd/idworker/version.go %s; want the same, or a later one with -SNAPSHOT", parent.Version, binary)
	}
	for _, module := range parent.Modules {
		if p := readPOM(t, module); p.Version != "" || p.Parent != parent.Version {
			t.Errorf("%s: version %q, parent %s; want its parent's, %s", p.Artifact, p.Version, p.Parent, parent.Version)
		}
	}
}

// TestBOM: the BOM names exactly the artifacts that are published.
func TestBOM(t *testing.T) {
	var published []string
	for _, module := range readPOM(t, ".").Modules {
		if p := readPOM(t, module); !p.Private && p.Packaging != "pom" {
			published = append(published, p.Artifact)
		}
	}
	managed := readPOM(t, "bom").Managed
	slices.Sort(published)
	slices.Sort(managed)
	if !slices.Equal(managed, published) {
		t.Errorf("the BOM names %v; the reactor publishes %v", managed, published)
	}
}

// later reports whether a version of three numbers is later than another.
func later(a, b string) bool {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	}) > 0
}
