package enrich

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/testing/natstest"
)

// A dependency fails while events wait, and recovers: nothing is lost or out of
// order, and the log has a line for each.
func TestAway(t *testing.T) {
	t.Parallel()
	const n = 300
	ready := jetstream.StreamConfig{Name: "READY", Subjects: []string{"orders.ready.>", "orders.dead"}, AllowAtomicPublish: true}
	full := ready
	full.MaxMsgs, full.Discard = n/2, jetstream.DiscardNew
	for _, c := range []struct {
		name   string
		breaks func(b *bed)
		mend   func(b *bed)

		unpublished bool // no event can be published during the outage
		gone        int  // events that were in the target
	}{
		{name: "IDs", breaks: func(b *bed) { b.ids.away.Store(true) }, mend: func(b *bed) { b.ids.away.Store(false) }},
		{name: "target full", breaks: func(b *bed) { b.stream(full) }, mend: func(b *bed) { b.stream(ready) }},
		{name: "server", unpublished: true, breaks: func(b *bed) { b.server.Stop() }, mend: func(b *bed) { b.server.Restart() }},
		// Both are new streams afterwards. An operator decides which events
		// count as enriched, while the enricher runs.
		{name: "target deleted", gone: 1, breaks: func(b *bed) { b.delete("READY") }, mend: func(b *bed) {
			b.stream(ready)
			b.resume(1)
		}},
		{name: "source deleted", unpublished: true, breaks: func(b *bed) { b.delete("ORDERS") }, mend: func(b *bed) {
			b.stream(ordersConfig)
			b.resume(0)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			core, logs := observer.New(zap.InfoLevel)
			cfg := b.hastyConfig()
			cfg.Log = zap.New(core)
			b.start(cfg)
			b.publish(1, 1)
			b.await(1)
			arrived := b.stored("READY", "orders.ready.>")[:c.gone]
			c.breaks(b)
			if !c.unpublished {
				b.publish(2, n)
			}
			logged := func(what string) int { return logs.FilterMessageSnippet(what).Len() }
			const fails, works = "enrichment failing", "working again"
			natstest.Eventually(t, "the outage in the log", func() bool { return logged(fails) > 0 })
			c.mend(b)
			if c.unpublished {
				b.publish(2, n)
			}
			b.publish(n+1, 2*n)
			b.await(uint64(2*n - c.gone))
			b.expect(append(arrived, b.stored("READY", "orders.ready.>")...), 2*n)
			natstest.Eventually(t, "the recovery in the log", func() bool { return logged(works) == logged(fails) })
			// On a busy machine there may be further outages, with a line for
			// the end of each.
			out := false
			for _, l := range logs.All() {
				begins, ends := strings.Contains(l.Message, fails), strings.Contains(l.Message, works)
				if begins && out || ends && !out {
					t.Fatalf("logged more than once for an outage: %v", logs.All())
				}
				out = out && !ends || begins
			}
		})
	}
}

func (b *bed) delete(stream string) {
	b.Helper()
	if err := b.js.DeleteStream(b.Context(), stream); err != nil {
		b.Fatal(err)
	}
}

// resume decides through which event of the source all are enriched.
func (b *bed) resume(after uint64) {
	b.Helper()
	err := Resume(b.Context(), b.config(), after, false)
	if errors.Is(err, ErrUnproven) {
		err = Resume(b.Context(), b.config(), after, true)
	}
	if err != nil {
		b.Fatal(err)
	}
}
