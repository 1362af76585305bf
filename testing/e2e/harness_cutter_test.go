package e2e

import (
	"testing"

	"github.com/idworker/idworker/testing/cutter"
)

// startCutter runs a cutter in front of servers until the test ends.
func startCutter(t testing.TB, urls ...string) *cutter.Cutter {
	t.Helper()
	c, err := cutter.Start(urls...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
