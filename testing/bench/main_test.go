package bench

import (
	"os"
	"testing"
)

// TestMain runs the tests or benchmarks, and then prints the table. A process that
// was started to be a NATS server is just that.
func TestMain(m *testing.M) {
	if dir := os.Getenv(serverDirEnv); dir != "" {
		serve(dir)
		return
	}
	code := m.Run()
	table.print(os.Stdout)
	os.Exit(code)
}
