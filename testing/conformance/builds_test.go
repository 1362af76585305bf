package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

// buildDir holds the programs that the tests build.
var buildDir string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	var err error
	if buildDir, err = os.MkdirTemp("", "idworker-conformance-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(buildDir) }()
	return m.Run()
}

// idworker is the command.
var idworker = sync.OnceValues(func() (string, error) { return process.Build(buildDir, "idworker", process.Command) })

// goDriver is the driver for Go. In make test-all it has the race detector: many
// of the cases call one client from many goroutines.
var goDriver = sync.OnceValues(func() (string, error) {
	const source = "../../messages"
	if _, err := os.ReadDir(source); err != nil { // go test keeps no result of other files
		return "", err
	}
	path := filepath.Join(buildDir, "driver")
	args := []string{"test", "-c", "-o", path}
	if tier.IsAll() {
		args = append(args, process.RaceFlags()...)
	}
	if out, err := exec.Command("go", append(args, source)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %v: %w\n%s", args, err, out)
	}
	return path, nil
})
