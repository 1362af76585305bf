// Package java runs the tests of the clients in messages/clients/java, and
// checks what their POMs say. Maven does the work.
package java

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/deps"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

// reactor is the folder of the parent POM.
var reactor = func() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "../../messages/clients/java")
}()

// patience bounds a run of Maven, which on a new machine downloads a lot. It
// finds hangs.
const patience = 20 * time.Minute

// Maven runs Maven in the reactor, and fails the test if Maven fails. Without
// a JDK or Maven it skips the test. Everything that the POMs name has a fixed
// version, so Maven asks no repository for what it once downloaded.
func Maven(t testing.TB, args ...string) {
	t.Helper()
	tier.All(t)
	deps.JDK.Require(t)
	binary := deps.Maven.Require(t)
	defer lock(t)()
	// A short run is not worth the better code.
	program := process.Program{Binary: binary, Dir: reactor, Env: []string{"MAVEN_OPTS=-XX:TieredStopAtLevel=1"}, Within: patience}
	if _, err := program.Run(append([]string{"-B", "-ntp", "-q"}, args...)...); err != nil {
		t.Fatal(err)
	}
}

// lock waits until no other test process runs Maven: two at once would write
// the same classes.
func lock(t testing.TB) (unlock func()) {
	t.Helper()
	pom, err := os.Open(filepath.Join(reactor, "pom.xml"))
	if err == nil {
		err = syscall.Flock(int(pom.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatalf("lock the reactor: %v", err)
	}
	return func() { _ = pom.Close() }
}

// POM is what tests read of a module's POM.
type POM struct {
	Artifact     string       `xml:"artifactId"`
	Version      string       `xml:"version"`
	Parent       string       `xml:"parent>version"`
	Packaging    string       `xml:"packaging"`                    // empty: jar
	Private      bool         `xml:"properties>maven.deploy.skip"` // not published
	Dependencies []Dependency `xml:"dependencies>dependency"`
	Managed      []Dependency `xml:"dependencyManagement>dependencies>dependency"`
}

// Dependency is a dependency in a POM.
type Dependency struct {
	Group    string `xml:"groupId"`
	Artifact string `xml:"artifactId"`
	Scope    string `xml:"scope"` // empty: compile
	Optional bool   `xml:"optional"`
}

// ReadPOM reads a POM.
func ReadPOM(t testing.TB, file string) (p POM) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = xml.Unmarshal(data, &p)
	}
	if err != nil {
		t.Fatalf("POM %s: %v", file, err)
	}
	return p
}

// Modules reads the POMs of the reactor: the parent's, and those of all modules,
// also of the modules that need a profile.
func Modules(t testing.TB) (parent POM, modules []POM) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(reactor, "*", "pom.xml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("modules of %s: %v, %v", reactor, files, err)
	}
	for _, file := range files {
		modules = append(modules, ReadPOM(t, file))
	}
	return ReadPOM(t, filepath.Join(reactor, "pom.xml")), modules
}
