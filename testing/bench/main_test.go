package bench

import (
	"os"
	"testing"
)

// TestMain runs the tests or benchmarks, and then prints the table.
func TestMain(m *testing.M) {
	code := m.Run()
	table.print(os.Stdout)
	os.Exit(code)
}
