package e2e

import (
	"fmt"
	"os"
	"sync"
	"testing"

	proc "github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

// binary is idworker, built with the race detector where that is to be had.
var binary string

// buildDir is where the binaries are.
var buildDir string

// TestMain leaves all of these tests to make test-all.
func TestMain(m *testing.M) {
	if !tier.IsAll() {
		fmt.Println("left to make test-all")
		return
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "idworker-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	buildDir = dir
	if binary, err = build("idworker", proc.RaceFlags()...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build compiles the command.
func build(name string, flags ...string) (path string, err error) {
	return proc.Build(buildDir, name, proc.Command, flags...)
}

// plainBinary is idworker without the race detector, for tests of memory, and
// for those that start hundreds of processes.
func plainBinary(t testing.TB) string {
	t.Helper()
	path, err := buildPlain()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var buildPlain = sync.OnceValues(func() (string, error) { return build("idworker-plain") })
