package conformance

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/idworker/idworker/testing/clients"
)

// The clients of messages/clients/python: for asyncio, and for threads. Both have
// one driver among the client's tests.
var (
	pythonClient     = client{name: "python", start: func(t testing.TB) *exec.Cmd { return pythonDriver(t) }}
	pythonSyncClient = client{name: "pythonsync", start: func(t testing.TB) *exec.Cmd { return pythonDriver(t, "--sync") }}
)

func pythonDriver(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	driver := filepath.Join(clients.Python, "tests", "driver.py")
	return exec.Command(clients.PythonProgram(t, "python"), append([]string{driver}, args...)...)
}
