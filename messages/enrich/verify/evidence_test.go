package verify_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/messages/enrich/verify"
)

// setChain puts the header Ids-Chain on a message about an event of the source, as an enricher to
// a target does.
func (b *bed) setChain(m *nats.Msg, target string, event int, later time.Duration) {
	b.Helper()
	original, err := b.open("ORDERS").GetMsg(b.Context(), uint64(event))
	if err != nil {
		b.Fatal(err)
	}
	m.Header.Set(enrich.HeaderChain, fmt.Sprintf("%s chain %d", target, original.Time.Add(later).UnixNano()))
}

// What is in the target or among the dead letters counts only if it is of this enrichment, and of
// the event that the source has.
func TestEvidence(t *testing.T) {
	const stamped, dead = 7, deadEvery
	for _, c := range []struct {
		name   string
		change func(b *bed)
		want   verify.Kind // empty: all is well
		event  uint64
	}{
		{"all say their chain", func(b *bed) {
			b.setChain(b.enriched[b.at(stamped)], "READY", stamped, 0)
			b.setChain(b.dead[0], "READY", dead, 0)
		}, "", 0},
		{"event of another source", func(b *bed) { b.setChain(b.enriched[b.at(stamped)], "READY", stamped, 1) }, verify.Unknown, stamped},
		{"bad header", func(b *bed) { b.enriched[b.at(stamped)].Header.Set(enrich.HeaderChain, "READY") }, verify.Unknown, stamped},
		{"letter of another source", func(b *bed) { b.setChain(b.dead[0], "READY", dead, 1) }, verify.Missing, dead},
		{"letter of another enrichment", func(b *bed) { b.setChain(b.dead[0], "JSONS", dead, 0) }, verify.Missing, dead},
		{"event on another subject", func(b *bed) {
			again := b.clone(stamped)
			again.Subject = "other"
			b.enriched = append(b.enriched, again)
		}, verify.Foreign, stamped},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, 100)
			b.publish(b.source...)
			c.change(b)
			b.source = nil
			b.fill()
			r := b.verify(b.config())
			if c.want == "" {
				b.expectClean(r, 95)
			} else if len(r.Findings) != 1 || r.Findings[0].Kind != c.want || r.Findings[0].Source != c.event {
				t.Errorf("%v, want %s of event %d", r.Findings, c.want, c.event)
			}
		})
	}
}
