package packages

import (
	"archive/zip"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/java"
	"github.com/idworker/idworker/testing/tier"
)

// java17 is the version of class files that Java 17 reads.
const java17 = 61

// TestJars: a release has each module that is published, and no other: the jar
// for Java 17 with a module's name, its sources, its Javadoc, and a bill of
// materials. The client needs jnats alone.
func TestJars(t *testing.T) {
	tier.Release(t)
	parent, modules := java.Modules(t)
	want := []string{stem(t, parent.Artifact) + ".pom"}
	for _, m := range modules {
		if m.Private {
			continue
		}
		base := stem(t, m.Artifact)
		want = append(want, base+".pom")
		if m.Packaging == "pom" {
			continue
		}
		checkJar(t, base)
		want = append(want, base+".jar", base+"-sources.jar", base+"-javadoc.jar")
	}
	got, err := fs.Glob(os.DirFS(dist), "idworker-*.[jp][ao][rm]")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("dist has %q, want %q", got, want)
	}
	if got := needs(t, stem(t, "idworker-client")); !slices.Equal(got, []string{"io.nats:jnats"}) {
		t.Errorf("idworker-client needs %v", got)
	}
	if got := java.ReadPOM(t, one(t, stem(t, "idworker-bom")+".pom")); got.Parent != "" {
		t.Errorf("the BOM has a parent, so who imports it gets the parent's versions")
	}
}

// stem is an artifact's name and version, as files of it begin.
func stem(t *testing.T, artifact string) string {
	t.Helper()
	return strings.TrimSuffix(filepath.Base(one(t, artifact+"-[0-9]*.pom")), ".pom")
}

// needs lists the dependencies that a jar brings along.
func needs(t *testing.T, base string) (list []string) {
	t.Helper()
	for _, d := range java.ReadPOM(t, one(t, base+".pom")).Dependencies {
		if !d.Optional && d.Scope != "test" && d.Scope != "provided" {
			list = append(list, d.Group+":"+d.Artifact)
		}
	}
	return list
}

func checkJar(t *testing.T, base string) {
	t.Helper()
	jar, err := zip.OpenReader(one(t, base+".jar"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = jar.Close() }()
	classes := 0
	for _, f := range jar.File {
		if !strings.HasSuffix(f.Name, ".class") {
			continue
		}
		classes++
		if major := content(t, &jar.Reader, f.Name)[7]; major > java17 {
			t.Errorf("%s.jar: %s is for Java %d", base, f.Name, major-java17+17)
		}
	}
	manifest := string(content(t, &jar.Reader, "META-INF/MANIFEST.MF"))
	_, module, _ := strings.Cut(manifest, "\r\nAutomatic-Module-Name: ")
	module, _, _ = strings.Cut(module, "\r\n")
	if !strings.HasPrefix(module, "io.github.idworker") {
		t.Errorf("%s.jar has the module name %q", base, module)
	}
	info, err := os.Stat(one(t, base+".jar"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s.jar: %d bytes, %d classes, module %s, needs %v", base, info.Size(), classes, module, needs(t, base))

	text, err := os.ReadFile(one(t, base+"-cyclonedx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		Components []struct{ Group, Name string }
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	for _, dependency := range needs(t, base) {
		if !slices.ContainsFunc(bill.Components, func(c struct{ Group, Name string }) bool { return c.Group+":"+c.Name == dependency }) {
			t.Errorf("%s.jar needs %s, which its bill of materials lacks", base, dependency)
		}
	}
}

// content is a file in a jar.
func content(t *testing.T, jar *zip.Reader, name string) []byte {
	t.Helper()
	f, err := jar.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
