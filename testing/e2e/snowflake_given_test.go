package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/testing/natstest"
)

// hangs is after how long what waits for a lease is taken to hang.
const hangs = 2 * time.Minute

// TestGivenWorkerID: of two processes that are given the same worker ID the second is refused, and told
// who has it. One that is started right after its predecessor was killed has it in the end, and begins above.
func TestGivenWorkerID(t *testing.T) {
	const ttl = "15s"
	url := natstest.Start(t, syncAlways).URL()
	js, err := jetstream.New(connect(t, url))
	if err != nil {
		t.Fatal(err)
	}
	serve := func() *process { return startWorker(t, url, "--worker-id", "5", "--lease-ttl", ttl) }

	first := serve()
	awaitHolder(t, js, 5, first)
	before := oneSnowflake(t, url)

	second := serve()
	natstest.Eventually(t, "the second one is refused", second.hasEnded)
	if code := second.wait(); code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	for _, part := range []string{`worker ID is held: 5, by process "` + first.instance() + `"`, "which is alive;", "leave --worker-id out"} {
		if !strings.Contains(second.stderr.String(), part) {
			t.Errorf("the second one does not say %s:\n%s", part, second.stderr.Tail())
		}
	}
	awaitHolder(t, js, 5, first)
	if strings.Contains(second.stderr.String(), "worker ID claimed") {
		t.Errorf("the second one had a worker ID:\n%s", second.stderr.Tail())
	}

	first.kill()
	successor := serve() // it serves at once, for tags need no worker ID
	awaitHolder(t, js, 5, successor)
	if after := oneSnowflake(t, url); after <= before || snowflake.Default().WorkerID(after) != 5 || snowflake.Default().WorkerID(before) != 5 {
		t.Errorf("%d after %d", after, before)
	}

	other := startWorker(t, url, "--worker-id", "6", "--lease-ttl", ttl)
	awaitHolder(t, js, 6, other)
	for text, want := range map[string]string{"1024": "0 to 1023", "-1": "--worker-id", "six": "ordinal"} {
		r := run(t, "serve", "--server", url, "--worker-id="+text)
		if r.code != exitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("--worker-id=%s: exit code %d, %s", text, r.code, r.stderr)
		}
	}
}

// awaitHolder waits until a process has a worker ID.
func awaitHolder(t *testing.T, js jetstream.JetStream, worker int64, p *process) {
	t.Helper()
	natstest.Eventually(t, "idworker "+p.name+" has its worker ID", func() bool {
		if p.hasEnded() {
			t.Fatalf("idworker %s ended:\n%s", p.name, p.stderr.Tail())
		}
		all, _, err := lease.List(t.Context(), js, messages.DefaultPrefix)
		for _, h := range all {
			if err == nil && h.Worker == worker && h.Instance == p.instance() {
				return true
			}
		}
		return false
	})
}

// oneSnowflake is an ID from whoever has a worker ID.
func oneSnowflake(t *testing.T, url string) (id snowflake.ID) {
	t.Helper()
	natstest.Eventually(t, "a snowflake ID", func() bool {
		r := run(t, "get", "--snowflake", "--server", url)
		var err error
		id, err = snowflake.Parse(strings.TrimSpace(r.stdout))
		return r.code == 0 && err == nil
	})
	return id
}
