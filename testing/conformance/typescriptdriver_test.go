package conformance

import (
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/idworker/idworker/testing/clients"
)

// typescriptClient is messages/clients/typescript. Its driver is a module of the
// client's tests, which reaches clocks and buffers.
var typescriptClient = client{name: "typescript", start: func(t testing.TB) *exec.Cmd {
	t.Helper()
	return exec.Command("node", filepath.Join(typescriptModules.compile(t), "test", "driver.mjs"))
}}

var typescriptModules compiledTypeScript

// compiledTypeScript is the client's modules.
type compiledTypeScript struct {
	mu   sync.Mutex
	path string
}

// compile returns the folder of the modules. The first test of a run compiles
// them, apart from those of other tests, but inside the package: the modules that
// they import are found from there.
func (c *compiledTypeScript) compile(t testing.TB) string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.path == "" {
		path := filepath.Join(clients.TypeScript, ".driver")
		clients.NPM(t, "exec", "--", "tsc", "-p", "tsconfig.driver.json", "--outDir", path)
		c.path = path
	}
	return c.path
}
