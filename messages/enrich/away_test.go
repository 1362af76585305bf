package enrich

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/testing/natstest"
)

// Something is away while events wait, and comes back: nothing is lost or out of order, and
// the log has one line for each.
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
	}{
		{"IDs", func(b *bed) { b.ids.away.Store(true) }, func(b *bed) { b.ids.away.Store(false) }},
		{"target full", func(b *bed) { b.stream(full) }, func(b *bed) { b.stream(ready) }},
		{"server", func(b *bed) { b.server.Stop() }, func(b *bed) { b.server.Restart() }},
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
			c.breaks(b)
			if b.server.Running() != nil {
				b.publish(2, n)
			}
			logged := func(what string) int { return logs.FilterMessageSnippet(what).Len() }
			natstest.Eventually(t, "the outage in the log", func() bool { return logged("enriching fails") > 0 })
			c.mend(b)
			if b.count("ORDERS") < n {
				b.publish(2, n)
			}
			b.publish(n+1, 2*n)
			b.await(2 * n)
			b.expectAll(2 * n)
			natstest.Eventually(t, "the recovery in the log", func() bool { return logged("works again") > 0 })
			if f, w := logged("enriching fails"), logged("works again"); f != 1 || w != 1 {
				t.Errorf("logged %d failures and %d recoveries", f, w)
			}
		})
	}
}
