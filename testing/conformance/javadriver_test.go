package conformance

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/idworker/idworker/testing/java"
)

var javaDriver javaClasses

// javaClasses is the driver for Java.
type javaClasses struct {
	mu   sync.Mutex
	path string
}

// command returns the command of the driver. The first test of a run compiles
// it.
func (c *javaClasses) command(t testing.TB) *exec.Cmd {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.path == "" {
		c.path = compileJava(t)
	}
	// A short run is not worth the better code.
	return exec.Command("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", c.path, "io.github.idworker.Driver")
}

// compileJava compiles the client and its tests, and returns their class path.
func compileJava(t testing.TB) string {
	t.Helper()
	const client = "../../messages/clients/java/client"
	java.Maven(t, "--projects", "client", "--also-make", "process-test-classes")
	target := filepath.Join(client, "target")
	libraries, err := os.ReadFile(filepath.Join(target, "driver.classpath"))
	// A copy, as other tests compile the client, too.
	classes := filepath.Join(buildDir, "java")
	for _, from := range []string{"classes", "test-classes"} {
		err = errors.Join(err, os.CopyFS(filepath.Join(classes, from), os.DirFS(filepath.Join(target, from))))
	}
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{filepath.Join(classes, "classes"), filepath.Join(classes, "test-classes"), string(libraries)}
	return strings.Join(paths, string(filepath.ListSeparator))
}
