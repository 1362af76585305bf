package bench

import (
	"flag"
	"os"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

// TestMain runs tests, which leave no goroutine behind, or benchmarks, and then
// prints the table.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		natstest.Main(m)
	}
	code := m.Run()
	table.print(os.Stdout)
	os.Exit(code)
}
