package java

import (
	"slices"
	"testing"
)

// TestReactor: the tests of all modules pass, with the real binary. The Javadoc
// is checked as strictly as in a release.
func TestReactor(t *testing.T) {
	Maven(t, "verify", "-Ddoclint=all,-missing", "-Dmaven.javadoc.failOnWarnings=true")
}

// TestVersion: all modules have one version. TestVersions of testing/clients
// compares it with the binary's.
func TestVersion(t *testing.T) {
	parent, modules := Modules(t)
	for _, m := range modules {
		if m.Version != "" || m.Parent != parent.Version {
			t.Errorf("%s: version %q, parent %s; want its parent's, %s", m.Artifact, m.Version, m.Parent, parent.Version)
		}
	}
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
