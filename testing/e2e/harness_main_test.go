package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// binary is idworker, built with the race detector.
var binary string

// buildDir is where the binaries are.
var buildDir string

func TestMain(m *testing.M) {
	go spawner()
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
	if binary, err = build("idworker", "-race"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build compiles the command.
func build(name string, flags ...string) (path string, err error) {
	path = filepath.Join(buildDir, name)
	args := append(append([]string{"build"}, flags...), "-o", path, "../../cmd/idworker")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %v: %w\n%s", args, err, out)
	}
	return path, nil
}

// plainBinary is idworker without the race detector, for tests of memory, and for
// those that start hundreds of processes.
var plainBinary = sync.OnceValues(func() (string, error) { return build("idworker-plain") })

// spawn runs a function on the thread that starts all processes.
var spawn = make(chan func())

// spawner is that thread. The kernel kills a process when the thread that started it ends,
// not when the process does, so this thread has to stay.
func spawner() {
	runtime.LockOSThread()
	for f := range spawn {
		f()
	}
}
