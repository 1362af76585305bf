// Package clients runs the tests of the clients in messages/clients/typescript
// and messages/clients/python by their own means, and checks the pages of all
// clients. testing/java runs Java's tests.
package clients

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/deps"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

// folder is that of all clients.
var folder = func() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "../../messages/clients")
}()

// Folders of the packages.
var (
	TypeScript = filepath.Join(folder, "typescript")
	Python     = filepath.Join(folder, "python")
)

// patience bounds a command. It finds hangs.
const patience = 20 * time.Minute

// NPM runs npm in the folder of the TypeScript client, and fails the test if npm
// fails. Without Node.js or the npm packages it skips the test.
func NPM(t testing.TB, args ...string) {
	t.Helper()
	tier.All(t)
	deps.TypeScript.Require(t)
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Fatal(err)
	}
	run(t, TypeScript, npm, args...)
}

// PythonProgram returns the path of a program in the virtual environment of the
// Python client, such as pytest. Without the environment it skips the test.
func PythonProgram(t testing.TB, name string) string {
	t.Helper()
	tier.All(t)
	return filepath.Join(deps.Python.Require(t), "bin", name)
}

// run runs a program, and fails the test if it fails.
func run(t testing.TB, dir, binary string, args ...string) {
	t.Helper()
	if _, err := (process.Program{Binary: binary, Dir: dir, Within: patience}).Run(args...); err != nil {
		t.Fatal(err)
	}
}
