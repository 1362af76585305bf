package e2e

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// TestServeAwaitsNATS: serve waits for a NATS server that is away and logs that
// once; a one-shot command fails at once.
func TestServeAwaitsNATS(t *testing.T) {
	t.Parallel()
	t.Run("an enricher's first request is lost", requestIsLost)
	ns := &production{t: t, address: freeport.Address(t)}
	ns.conf = write(t, t.TempDir(), "nats.conf", fmt.Sprintf("jetstream { store_dir: %q }", t.TempDir()))
	url := "nats://" + ns.address
	http := freeport.Address(t)
	const waits, tryLater = "waiting for a NATS server", 4
	serve := settings{}.launch(t, "serve", "--server", url, "--http", http)
	enrich := settings{}.launch(t, "enrich", "--server", url, "--from", "EVENTS", "--to", "stamped.>", "--id", "snowflake")
	for _, p := range []*process{serve, enrich} {
		natstest.Eventually(t, "it says that it waits", func() bool { return strings.Contains(p.stderr.String(), waits) })
	}
	if code, body := fetch(t, http, "/readyz"); code != 503 || !strings.Contains(body, "starting") {
		t.Errorf("/readyz while it waits: %d, %s", code, body)
	}
	for _, once := range [][]string{{"get", "order"}, {"tag", "ls"}, {"doctor"}, {"provision"}, {"enrich", "--from", "ORDERS", "--filter", "orders.raw.>", "--to", "orders.ready.>", "--id", "segment:order", "--resume-after", "1"}} {
		if r := run(t, append(once, "--server", url)...); r.code != tryLater {
			t.Errorf("%v: exit code %d, want %d\n%s", once, r.code, tryLater, r.stderr)
		}
	}
	ns.start()
	serve.serving()
	for p, there := range map[*process]int{serve: 1, enrich: 1} {
		natstest.Eventually(t, "it says that the server is there", func() bool { return strings.Contains(p.stderr.String(), "connected to NATS") })
		if log := p.stderr.String(); strings.Count(log, waits) != there {
			t.Errorf("%s: not one line that says it waits:\n%s", p.name, log)
		}
	}
	serve.stop(syscall.SIGTERM)

	waiting := settings{}.launch(t, "serve", "--server", "nats://"+freeport.Address(t))
	natstest.Eventually(t, "it says that it waits", func() bool { return strings.Contains(waiting.stderr.String(), waits) })
	waiting.stop(syscall.SIGTERM)
}

// requestIsLost leaves an enricher's first request without an answer, like a
// server that has just started. The enricher retries before its start times
// out.
func requestIsLost(t *testing.T) {
	ns := natstest.Start(t, func(o *server.Options) { o.JetStream = false })
	var asked atomic.Int64
	_, err := ns.Connect(t).Subscribe("$JS.API.STREAM.INFO.ORDERS", func(msg *nats.Msg) {
		if asked.Add(1) > 1 {
			_ = msg.Respond([]byte(`{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	p := settings{}.launch(t, enrichFlags(ns.URL())...)
	if code := p.wait(); code == exitOK || !strings.Contains(p.stderr.String(), "ORDERS") || asked.Load() < 2 {
		t.Errorf("exit code %d after %d requests:\n%s", code, asked.Load(), p.stderr.Tail())
	}
}
