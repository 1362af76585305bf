package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// TestEnrichCommand: when enrichers refuse, and how an operator decides otherwise.
func TestEnrichCommand(t *testing.T) {
	t.Parallel()
	t.Run("another installation", otherInstallation)
	t.Run("a request is lost", requestIsLost)
	t.Run("--resume-after fails at once", func(t *testing.T) { // a command that is asked once does not wait for a server
		r := settings{}.run(t, append(enrichFlags("nats://"+freeAddress(t)), "--resume-after", "1")...)
		if r.code == exitOK || !strings.Contains(r.stderr, "connect to NATS") {
			t.Errorf("without a server (%d): %s", r.code, r.stderr)
		}
	})
}

// otherInstallation: an enricher refuses to go on with what one with other workers
// has begun: they may hand out the same IDs again. An operator can decide otherwise.
func otherInstallation(t *testing.T) {
	const some = 20
	e := newEnrichment(t)
	p := e.start(e.url)
	e.publish(some)
	e.await(some)
	p.stop(syscall.SIGTERM)

	config, err := e.js.KeyValue(t.Context(), agreement.BucketName(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.PutString(t.Context(), agreement.InstallationKey, "other 2026-01-02T03:04:05Z"); err != nil {
		t.Fatal(err)
	}
	r := settings{}.run(t, enrichFlags(e.url)...)
	if r.code == exitOK || !strings.Contains(r.stderr, "with other settings: installation was ") || !strings.Contains(r.stderr, ", now other;") || !strings.Contains(r.stderr, "--resume-after SEQ") {
		t.Errorf("an enricher with other workers (%d): %s", r.code, r.stderr)
	}
	resumed := must(t, append(enrichFlags(e.url), "--resume-after", strconv.Itoa(some))...)
	if want := fmt.Sprintf("noted: goes on after %d; start enrichers now\n", some); resumed.stdout != want {
		t.Errorf("%q, want %q", resumed.stdout, want)
	}
	e.start(e.url)
	e.publish(some)
	e.checkAll()
}

// requestIsLost leaves an enricher's first request without an answer,
// as a server does that has just started. It asks again before its time to start is over.
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
