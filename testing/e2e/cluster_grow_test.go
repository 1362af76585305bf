package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// TestNoDuplicateFromEmbeddedToCluster follows "Moving the counters" of docs/operations.md
// from the embedded server of one machine to a cluster of three.
func TestNoDuplicateFromEmbeddedToCluster(t *testing.T) {
	t.Parallel()
	const tag = "order"
	seen := newLedgers([]string{tag})
	get := func(s settings, n string) {
		t.Helper()
		r := s.mustRun(t, "get", "--ranges", tag, n)
		ranges, err := messages.DecodeRanges([]byte(strings.TrimSpace(r.stdout)), 1000)
		if err != nil {
			t.Fatal(err)
		}
		seen[tag].add(ranges)
	}

	data, address := filepath.Join(t.TempDir(), "data"), freeAddress(t)
	embedded := settings{env: []string{"NATS_URL=nats://" + address}}
	serve := []string{"serve", "--listen", address, "--data", data}
	old := settings{}.launch(t, serve...)
	old.serving()
	embedded.mustRun(t, "tag", "create", tag, "--step", "1000")
	natstest.Eventually(t, readyWithin, "tag is served", func() bool { return embedded.run(t, "get", "--ranges", tag, "1000").code == 0 })
	for range 5 {
		get(embedded, "1000")
	}

	old.stop(syscall.SIGTERM)
	loader := settings{}.launch(t, append(serve, "--role", "loader")...)
	loader.serving()
	file := filepath.Join(t.TempDir(), "tags.txt")
	if err := os.WriteFile(file, []byte(embedded.mustRun(t, "tag", "export").stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	loader.stop(syscall.SIGTERM)

	cluster3 := natstest.StartCluster(t, 3)
	cluster3.WaitReady(t)
	cluster := settings{env: []string{"NATS_URL=" + cluster3.Servers[0].URL()}}
	cluster.mustRun(t, "provision", "--part", "ids", "--replicas", "3")
	cluster.mustRun(t, "tag", "import", file)
	cluster.launch(t, "serve").serving()
	for range 5 {
		get(cluster, "1000")
	}
	seen.check(t)
}
