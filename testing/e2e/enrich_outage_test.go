package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
)

// TestEventsArriveOnceThroughOutages takes away what a running enricher needs. Nothing is
// lost or out of order, and the log has one line for the outage and one for its end.
func TestEventsArriveOnceThroughOutages(t *testing.T) {
	t.Parallel()
	const some = 500
	full := targetConfig
	full.MaxMsgs, full.Discard = 2*some-100, jetstream.DiscardNew
	for _, c := range []struct {
		name          string
		away, back    func(e *enrichment)
		least         time.Duration // how long it lasts
		withoutSource bool          // no event can be published meanwhile
	}{
		// Neither is the stream that it was. An operator decides what of the source counts as
		// enriched.
		{name: "target deleted", away: func(e *enrichment) { e.check(); e.delete("READY") },
			back: func(e *enrichment) { e.create(targetConfig); e.resumeAfter(some); e.next = 1 }},
		{name: "source deleted", withoutSource: true,
			away: func(e *enrichment) { e.check(); e.delete("ORDERS") },
			// The new stream's sequence starts at 1.
			back: func(e *enrichment) {
				e.create(sourceConfig)
				e.sent, e.arrived = 0, 0
				e.resumeAfter(0)
			}},
		{name: "target full", away: func(e *enrichment) { e.create(full) }, back: func(e *enrichment) { e.create(targetConfig) }},
		{name: "no IDs", least: 10 * time.Second, away: func(e *enrichment) { e.worker.stop(syscall.SIGTERM) },
			back: func(e *enrichment) { e.worker = startWorker(e.t, e.url) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newEnrichment(t)
			p := e.start(e.url)
			e.publish(some)
			e.await(some)
			c.away(e)
			began := time.Now()
			if !c.withoutSource {
				e.publish(some)
			}
			natstest.Eventually(t, readyWithin, "the outage is logged", func() bool {
				return p.says("enriching fails") > 0 && time.Since(began) >= c.least
			})
			c.back(e)
			e.publish(some)
			e.checkAll()
			natstest.Eventually(t, readyWithin, "its end is logged", func() bool { return p.says("enriching works again") > 0 })
			e.publish(some)
			e.checkAll()
			if fails, works := p.says("enriching fails"), p.says("enriching works again"); fails != 1 || works != 1 {
				t.Errorf("%d lines of outages and %d of their ends, want one of each", fails, works)
			}
			p.stop(syscall.SIGTERM)
		})
	}
}

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

func (e *enrichment) delete(stream string) {
	e.t.Helper()
	if err := e.js.DeleteStream(e.t.Context(), stream); err != nil {
		e.t.Fatal(err)
	}
}
