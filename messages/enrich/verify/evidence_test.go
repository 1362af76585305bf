package verify_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages/enrich/verify"
)

// TestExpiredLetters: expired dead letters explain absent events only if these
// are older than the remaining letters.
func TestExpiredLetters(t *testing.T) {
	for name, c := range map[string]struct {
		dropped []int
		gone    uint64
		missing uint64
	}{
		"before the first that is left": {dropped: []int{7}, gone: 2}, // and event 20
		"behind the first that is left": {dropped: []int{43}, gone: 1, missing: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, 60)
			b.stream(readyConfig(b))
			for _, event := range c.dropped {
				b.drop(event)
			}
			source := b.source
			b.source = source[:42]
			dead := b.dead
			b.dead = nil
			for range 5 { // more than enough that expire
				b.dead = append(b.dead, dead[0])
			}
			b.dead = append(b.dead, dead[1])
			enriched := b.enriched
			b.enriched = nil
			b.fill()
			b.source, b.dead, b.enriched = source[42:], dead[2:], enriched
			b.fill()
			b.purge("DEAD", 6)
			if r := b.verify(b.config()); r.Gone != c.gone || r.Faults[verify.Missing] != c.missing {
				t.Errorf("%+v, want %+v", r, c)
			}
		})
	}
}

// TestLateOrphan: an event that is in the target once is out of order, but not
// doubled because its original is gone.
func TestLateOrphan(t *testing.T) {
	t.Parallel()
	b := newBed(t, 60)
	m := b.clone(8)
	b.insert(25, m)
	b.enriched = append(b.enriched[:7:7], b.enriched[8:]...)
	b.insert(40+1, b.clone(9)) // and this event is doubled
	b.fill()
	b.purge("ORDERS", 61)
	r := b.verify(b.config())
	if len(r.Findings) != 2 || r.Faults[verify.Order] != 1 || r.Faults[verify.Doubled] != 1 || r.Findings[0].Source != 8 || r.Findings[1].Source != 9 {
		t.Errorf("%v, want event 8 to be out of order and event 9 to be doubled", r.Findings)
	}
}

// TestAfter: events that an operator decided about are not verified, but their
// IDs are compared.
func TestAfter(t *testing.T) {
	t.Parallel()
	b := newBed(t, 60)
	b.stream(readyConfig(b))
	b.drop(5)
	b.replace(3, func(m *nats.Msg) { m.Subject = "other" })
	b.replace(48, func(m *nats.Msg) { setID("4")(m); m.Data = []byte(`{"n":48,"id":"4"}`) }) // as event 8
	b.fill()
	if r := b.verify(b.config()); r.Faults[verify.Missing] != 2 || r.Faults[verify.Foreign] != 1 {
		t.Errorf("without it: %+v", r)
	}
	cfg := b.config()
	cfg.After = 8
	r := b.verify(cfg)
	if len(r.Findings) != 1 || r.Findings[0].Kind != verify.SharedID || r.From != 9 || r.Before != 6 || r.Others != 1 || r.Events != 49 {
		t.Errorf("%+v, want events from 9 on, one of which has the ID of event 8", r)
	}
}
