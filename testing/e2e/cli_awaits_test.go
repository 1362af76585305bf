package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

// TestServeAwaitsNATS: whoever serves waits for a NATS server that is away and says so once,
// and whoever asks once is told at once.
func TestServeAwaitsNATS(t *testing.T) {
	t.Parallel()
	server := &production{t: t, address: freeAddress(t)}
	server.conf = write(t, t.TempDir(), "nats.conf", fmt.Sprintf("jetstream { store_dir: %q }", t.TempDir()))
	url := "nats://" + server.address
	http := freeAddress(t)
	const waits, tryLater, interrupted = "no NATS server answers yet", 4, 130
	serve := settings{}.launch(t, "serve", "--server", url, "--http", http)
	enrich := settings{}.launch(t, "enrich", "--server", url, "--from", "EVENTS", "--to", "stamped.>", "--id", "snowflake")
	for _, p := range []*process{serve, enrich} {
		natstest.Eventually(t, "it says that it waits", func() bool { return strings.Contains(p.stderr.String(), waits) })
	}
	if code, body := fetch(t, http, "/readyz"); code != 503 || !strings.Contains(body, "starting") {
		t.Errorf("/readyz while it waits: %d, %s", code, body)
	}
	for _, once := range [][]string{{"get", "order"}, {"tag", "ls"}, {"doctor"}, {"provision"}} {
		if r := run(t, append(once, "--server", url)...); r.code != tryLater {
			t.Errorf("%v: exit code %d, want %d\n%s", once, r.code, tryLater, r.stderr)
		}
	}
	server.start()
	serve.serving()
	for p, there := range map[*process]int{serve: 1, enrich: 1} {
		natstest.Eventually(t, "it says that the server is there", func() bool { return strings.Contains(p.stderr.String(), "the NATS server is there") })
		if log := p.stderr.String(); strings.Count(log, waits) != there {
			t.Errorf("%s: not one line that says it waits:\n%s", p.name, log)
		}
	}
	serve.stop(syscall.SIGTERM)

	waiting := settings{}.launch(t, "serve", "--server", "nats://"+freeAddress(t))
	natstest.Eventually(t, "it says that it waits", func() bool { return strings.Contains(waiting.stderr.String(), waits) })
	waiting.signal(syscall.SIGTERM)
	if code := waiting.wait(); code != interrupted {
		t.Errorf("exit code %d of one that was ended while it waited, want %d", code, interrupted)
	}
}
