package conformance

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/idworker/idworker/testing/java"
	"github.com/idworker/idworker/testing/tier"
)

// goClient is the package messages. Its driver is that package's test binary,
// which reaches clocks and buffers.
var goClient = client{name: "go", start: func(t testing.TB) *exec.Cmd {
	cmd := exec.Command(goDriver.build(t))
	cmd.Env = append(os.Environ(), "IDWORKER_CONFORMANCE_DRIVER=1")
	return cmd
}}

// javaClient is messages/clients/java. Its driver is a class of the client's
// tests, which reaches clocks and buffers.
var javaClient = client{name: "java", start: func(t testing.TB) *exec.Cmd {
	tier.All(t)
	return javaDriver.command(t)
}}

var goDriver testBinary

// testBinary is the driver for Go.
type testBinary struct {
	mu   sync.Mutex
	path string
}

// build returns the path of the binary. The first test of a run builds it; its
// subtests use it, too.
func (b *testBinary) build(t testing.TB) string {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := os.Stat(b.path); err == nil {
		return b.path
	}
	const source = "../../messages"
	if _, err := os.ReadDir(source); err != nil { // so that go test keeps no result of other files
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "driver")
	args := []string{"test", "-c", "-o", path}
	// The same flags as this test's need no second compilation.
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, source)...).CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
	b.path = path
	return path
}

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
		const client = "../../messages/clients/java/client"
		target := filepath.Join(client, "target")
		// Reading the folders makes go test keep no result of other files.
		if err := filepath.WalkDir(filepath.Join(client, "src"), func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
			t.Fatal(err)
		}
		java.Maven(t, "--projects", "client", "--also-make", "process-test-classes")
		libraries, err := os.ReadFile(filepath.Join(target, "driver.classpath"))
		if err != nil {
			t.Fatal(err)
		}
		c.path = strings.Join([]string{filepath.Join(target, "classes"), filepath.Join(target, "test-classes"), string(libraries)}, string(filepath.ListSeparator))
	}
	// A short run is not worth the better code.
	return exec.Command("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", c.path, "io.github.idworker.Driver")
}
