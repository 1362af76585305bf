package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/nemesis"
)

// TestCommands: the parts of the command line that need a process. Outputs and
// refusals are tested in cmd/idworker.
func TestCommands(t *testing.T) {
	t.Parallel()
	t.Run("environment", environment)
	t.Run("completion", completion)
	t.Run("bench", bench)
}

// environment uses environment variables in place of flags.
func environment(t *testing.T) {
	address := freeport.Address(t)
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
	if r := client.succeeds(t, "get", "order", "6", "--ranges"); len(r.lines()) != 2 {
		t.Errorf("get 6 with IDWORKER_MAX_BATCH=5: %+v, want two answers", r)
	}
	client.env = append(client.env, "IDWORKER_SERVER=nats://"+freeport.Address(t))
	if r := client.run(t, "get", "order"); r.code != exitTryLater {
		t.Errorf("IDWORKER_SERVER does not go before NATS_URL: %+v", r)
	}
	client.succeeds(t, "get", "--server", url, "order")
	bad := settings{env: []string{"IDWORKER_WAIT=soon"}}
	if r := bad.run(t, "serve"); r.code != exitUsage {
		t.Errorf("IDWORKER_WAIT=soon: %+v", r)
	}
	p.stop(syscall.SIGTERM)
}

// bench puts load on a real installation until it is interrupted. The recorded
// history can be checked alone.
func bench(t *testing.T) {
	s := startServer(t, t.TempDir())
	createTag(t, s.url, "order")
	createTag(t, s.url, "invoice", "--order", "strict")
	settings{}.succeeds(t, "get", "--snowflake", "--server", s.url)
	name := filepath.Join(t.TempDir(), "history")
	p := settings{}.launch(t, "bench", "order", "invoice", "--server", s.url, "--snowflake", "--batch", "3", "--duration", "1h", "--history", name)
	natstest.Eventually(t, "requests are recorded", func() bool {
		text, _ := os.ReadFile(name)
		for _, kind := range []string{"batch", "strict", "snowflake"} {
			if strings.Count(string(text), "\n"+kind+" ") < 3 {
				return p.hasEnded()
			}
		}
		return true
	})
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 130 || !strings.Contains(p.stdout.String(), "ok ") {
		t.Errorf("interrupted (%d): %s%s", code, p.stdout.String(), p.stderr.String())
	}
	history, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = history.Close() }()
	c, err := nemesis.CheckHistory(history)
	if err != nil {
		t.Fatal(err)
	}
	if ids, _ := c.Counts(); ids == 0 || len(c.Violations()) > 0 {
		t.Errorf("checked alone it has %d IDs; %v", ids, c.Violations())
	}
}
