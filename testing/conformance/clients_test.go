package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"github.com/idworker/idworker/testing/tier"
)

// goClient is the package messages. Its driver is that package's test binary,
// which reaches clocks and buffers.
var goClient = client{name: "go", start: func(t testing.TB) *exec.Cmd {
	cmd := exec.Command(goDriver.build(t))
	cmd.Env = append(os.Environ(), "IDWORKER_CONFORMANCE_DRIVER=1")
	return cmd
}}

// javaClient is messages/clients/java.
var javaClient = client{name: "java", start: func(t testing.TB) *exec.Cmd {
	tier.All(t)
	t.Skip("its driver is not written")
	return nil
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
