package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
)

// TestWorkerAloneOnItsOwnServer: a worker that brings its NATS server along, and no loader, warns
// of that although nobody asks for IDs.
func TestWorkerAloneOnItsOwnServer(t *testing.T) {
	t.Parallel()
	const warning = "no loader has reserved any for it yet"
	s := startServer(t, t.TempDir(), "--role", "worker")
	began := time.Now()
	natstest.Eventually(t, "it warns", func() bool { return strings.Contains(s.stderr.String(), warning) })
	if early := time.Since(began) < 8*time.Second; early {
		t.Error("it warns before a loader had time to come")
	}
}
