package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/natstest"
)

// TestEnricherStartsThoughARequestIsLost leaves an enricher's first request without an answer,
// as a server does that has just started. It asks again long before its time to start is over.
func TestEnricherStartsThoughARequestIsLost(t *testing.T) {
	t.Parallel()
	ns := natstest.Start(t, func(o *server.Options) { o.JetStream = false })
	asked := make(chan struct{}, 100)
	_, err := ns.Connect(t).Subscribe("$JS.API.STREAM.INFO.ORDERS", func(msg *nats.Msg) {
		if asked <- struct{}{}; len(asked) == 2 {
			_ = msg.Respond([]byte(`{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	p := settings{}.launch(t, enrichFlags(ns.URL())...)
	if code := p.wait(); code == exitOK || !strings.Contains(p.stderr.String(), "ORDERS") || len(asked) != 2 {
		t.Errorf("exit code %d after %d requests:\n%s", code, len(asked), p.stderr.Tail())
	}
}

// resumeAfter decides that the events of the source through a sequence are enriched.
func (e *enrichment) resumeAfter(seq int) {
	e.t.Helper()
	r := settings{}.mustRun(e.t, append(enrichFlags(e.url), "--resume-after", strconv.Itoa(seq))...)
	if want := fmt.Sprintf("noted: goes on after %d; start enrichers now\n", seq); r.stdout != want {
		e.t.Errorf("%q, want %q", r.stdout, want)
	}
}
