package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
)

// TestPasswordRotates: a password is replaced on the NATS server, then in a
// file, which is empty for a while. Processes log in again. At
// SIGHUP they log that, and go on; at SIGTERM they end with success, although
// the server is away.
func TestPasswordRotates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	setServer := func(password string) string {
		return write(t, dir, "nats.conf", fmt.Sprintf("jetstream { store_dir: %q }\nauthorization { user: alice, password: %q }", dir, password))
	}
	// setFile replaces the content in one step.
	setFile := func(password string) string {
		path := filepath.Join(dir, "password")
		if err := os.Rename(write(t, dir, "password.new", password), path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ns := startProduction(t, setServer("first"))
	login := settings{env: []string{"NATS_URL=nats://" + ns.address, "NATS_USER=alice", "IDWORKER_PASSWORD_FILE=" + setFile("first\n")}}
	js := natstest.JetStream(t, connect(t, "nats://"+ns.address, nats.UserInfo("alice", "first")))
	for _, c := range []jetstream.StreamConfig{sourceConfig, targetConfig} {
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	serve := login.launch(t, "serve", "--allow-unsynced")
	serve.serving()
	login.mustRun(t, "tag", "create", "order")
	login.succeeds(t, "get", "order")
	enrich := login.launch(t, "enrich", "--from", "ORDERS", "--filter", "orders.raw.>", "--to", "orders.ready.>", "--id", "segment:order")
	processes := []*process{serve, enrich}
	both := func(message string) {
		t.Helper()
		for _, p := range processes {
			natstest.Eventually(t, p.name+" says "+message, func() bool { return p.says(message) > 0 || p.hasEnded() })
		}
	}
	natstest.Eventually(t, "the enricher runs", func() bool { return enrich.says("enriching\t") > 0 || enrich.hasEnded() })

	setFile("")
	setServer("second")
	ns.server.signal(syscall.SIGHUP)
	both("reload failed")
	setFile("second")
	both("NATS connection restored")
	login.succeeds(t, "get", "order")
	for _, p := range processes {
		if n := p.says("reload failed"); n != 1 {
			t.Errorf("%s says %d times that the file is empty", p.name, n)
		}
		p.signal(syscall.SIGHUP)
	}
	both("SIGHUP")
	login.succeeds(t, "get", "order")

	ns.server.signal(syscall.SIGKILL)
	<-ns.server.ended
	for _, p := range processes {
		p.stop(syscall.SIGTERM)
	}
	if serve.says("NATS does not answer")+serve.says("stopped with work unfinished") == 0 {
		t.Errorf("no sentence about the end:\n%s", serve.stderr.Tail())
	}
}
