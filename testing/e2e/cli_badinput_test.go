package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The exit codes, as cmd/internal/explain/exit.go and docs/command-line.md list them.
const (
	exitOK        = 0
	exitFailure   = 1
	exitUsage     = 2
	exitNoTag     = 3
	exitTryLater  = 4
	exitExhausted = 5
)

// TestEnvironment uses environment variables in place of flags.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	url := "nats://" + address
	data := filepath.Join(t.TempDir(), "some", "folder")
	env := settings{env: []string{
		"IDWORKER_LISTEN=" + address,
		"IDWORKER_DATA=" + data,
		"IDWORKER_PREFIX=shop",
		"IDWORKER_MAX_BATCH=5",
		"IDWORKER_MAX_STEP=1000",
		"IDWORKER_LOG_LEVEL=debug",
		"IDWORKER_DEMO=false",
	}}
	p := env.launch(t, "serve")
	p.serving()
	if _, err := os.Stat(data); err != nil {
		t.Error(err)
	}
	if !strings.Contains(p.stderr.String(), "\tdebug\t") {
		t.Error("IDWORKER_LOG_LEVEL=debug shows no details")
	}
	client := settings{env: []string{"NATS_URL=" + url, "IDWORKER_PREFIX=shop", "IDWORKER_STEP=7"}}
	if r := client.run(t, "tag", "create", "order"); r.code != exitOK || !strings.Contains(r.stdout, "step 7") {
		t.Errorf("tag create: %+v, want step 7", r)
	}
	if r := client.run(t, "get", "order", "5"); r.code != exitOK || len(ids(t, r)) != 5 {
		t.Errorf("get 5: %+v", r)
	}
	if r := client.run(t, "get", "order", "6", "--ranges"); r.code != exitOK || len(r.lines()) != 2 {
		t.Errorf("get 6 with IDWORKER_MAX_BATCH=5: %+v, want two answers", r)
	}
	client.env = append(client.env, "IDWORKER_SERVER=nats://"+freeAddress(t))
	if r := client.run(t, "get", "order"); r.code != exitTryLater {
		t.Errorf("IDWORKER_SERVER does not go before NATS_URL: %+v", r)
	}
	if r := client.run(t, "get", "--server", url, "order"); r.code != exitOK {
		t.Errorf("--server does not go before IDWORKER_SERVER: %+v", r)
	}
	bad := settings{env: []string{"IDWORKER_WAIT=soon"}}
	if r := bad.run(t, "serve"); r.code != exitUsage {
		t.Errorf("IDWORKER_WAIT=soon: %+v", r)
	}
	p.stop(syscall.SIGTERM)
}
