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

// twoAccounts is the configuration of a server with an account for each of two installations.
const twoAccounts = `
jetstream { store_dir: $IDS_NATS_DATA, sync_interval: always }
accounts {
  A: { jetstream: enabled, users: [{ user: a, password: secret }] }
  B: { jetstream: enabled, users: [{ user: b, password: secret }] }
}
`

// TestNoDuplicateFromInstallationToInstallation follows "Moving the counters" of docs/operations.md:
// from the embedded server of one machine to an account of another server, there to another
// prefix, to another account, and to a cluster of three.
func TestNoDuplicateFromInstallationToInstallation(t *testing.T) {
	t.Parallel()
	const tag = "order"
	seen := newLedgers([]string{tag})
	get := func(s settings) {
		t.Helper()
		r := s.succeeds(t, "get", "--ranges", tag, "1000")
		ranges, err := messages.DecodeRanges([]byte(strings.TrimSpace(r.stdout)), 1000)
		if err != nil {
			t.Fatal(err)
		}
		seen[tag].add(ranges)
	}
	file := filepath.Join(t.TempDir(), "tags.txt")
	export := func(s settings) {
		t.Helper()
		if err := os.WriteFile(file, []byte(s.mustRun(t, "tag", "export").stdout), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	data, address := filepath.Join(t.TempDir(), "data"), freeAddress(t)
	embedded := settings{env: []string{"NATS_URL=nats://" + address}}
	serve := []string{"serve", "--listen", address, "--data", data}
	process := settings{}.launch(t, serve...)
	process.serving()
	embedded.mustRun(t, "tag", "create", tag, "--step", "1000")
	for range 3 {
		get(embedded)
	}
	process.stop(syscall.SIGTERM)
	loader := settings{}.launch(t, append(serve, "--role", "loader")...)
	loader.serving()
	export(embedded)
	loader.stop(syscall.SIGTERM)

	conf := filepath.Join(t.TempDir(), "accounts.conf")
	if err := os.WriteFile(conf, []byte(twoAccounts), 0o600); err != nil {
		t.Fatal(err)
	}
	ns := startProduction(t, conf)
	cluster := natstest.StartCluster(t, 3)
	cluster.WaitReady(t)
	for _, to := range []settings{
		{env: []string{"NATS_URL=nats://a:secret@" + ns.address}},
		{env: []string{"NATS_URL=nats://a:secret@" + ns.address, "IDWORKER_PREFIX=other"}},
		{env: []string{"NATS_URL=nats://b:secret@" + ns.address}},
		{env: []string{"NATS_URL=" + cluster.Servers[0].URL(), "IDWORKER_REPLICAS=3"}},
	} {
		to.mustRun(t, "provision", "--part", "ids")
		to.mustRun(t, "tag", "import", file)
		process := to.launch(t, "serve")
		process.serving()
		for range 3 {
			get(to)
		}
		process.stop(syscall.SIGTERM)
		export(to)
	}
	seen.check(t)
}
