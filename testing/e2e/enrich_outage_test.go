package e2e

import (
	"strconv"
	"syscall"
	"testing"
	"time"

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
			back: func(e *enrichment) { e.worker = startWorker(e.t, e.ns.URL()) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newEnrichment(t)
			p := e.start(e.ns.URL())
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

// resumeAfter decides that the events of the source through a sequence are enriched.
func (e *enrichment) resumeAfter(seq int) {
	e.t.Helper()
	settings{}.mustRun(e.t, append(enrichFlags(e.ns.URL()), "--resume-after", strconv.Itoa(seq))...)
}

func (e *enrichment) delete(stream string) {
	e.t.Helper()
	if err := e.js.DeleteStream(e.t.Context(), stream); err != nil {
		e.t.Fatal(err)
	}
}
