package verify_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/messages/enrich/verify"
	"github.com/idworker/idworker/testing/natstest"
)

// claim returns a message that claims an event of the source, with the evidence
// that this event would have.
func claim(source string) *nats.Msg {
	return &nats.Msg{Subject: "orders.ready.de.1", Data: []byte(`{"id":"9000"}`), Header: nats.Header{
		enrich.HeaderSource: {source}, enrich.HeaderID: {"9000"},
	}}
}

// with returns a message with another value of a header, or without it.
func with(m *nats.Msg, name string, values ...string) *nats.Msg {
	m.Header.Del(name)
	if len(values) > 0 {
		m.Header[name] = values
	}
	return m
}

// forgings are messages that are no event of the source, despite their headers.
var forgings = []struct {
	name string
	make func(b *bed) *nats.Msg
	want []verify.FaultKind
}{
	{"no headers", func(*bed) *nats.Msg { return &nats.Msg{Subject: "orders.ready.de.1", Data: []byte("hello")} }, []verify.FaultKind{verify.Foreign}},
	{"only an ID", func(*bed) *nats.Msg { return with(claim(""), enrich.HeaderSource) }, []verify.FaultKind{verify.Foreign}},
	{"empty headers", func(*bed) *nats.Msg { return with(with(claim(""), enrich.HeaderSource, ""), enrich.HeaderChain, "") }, []verify.FaultKind{verify.Foreign}},
	{"no number", func(*bed) *nats.Msg { return claim("ORDERS") }, []verify.FaultKind{verify.Foreign}},
	{"number of letters", func(*bed) *nats.Msg { return claim("ORDERS x") }, []verify.FaultKind{verify.Foreign}},
	{"number zero", func(*bed) *nats.Msg { return claim("ORDERS 0") }, []verify.FaultKind{verify.Foreign}},
	{"number negative", func(*bed) *nats.Msg { return claim("ORDERS -40") }, []verify.FaultKind{verify.Foreign}},
	{"number beyond 64 bits", func(*bed) *nats.Msg { return claim("ORDERS 18446744073709551616") }, []verify.FaultKind{verify.Foreign}},
	{"number written otherwise", func(*bed) *nats.Msg { return claim("ORDERS 040") }, []verify.FaultKind{verify.Foreign}},
	{"two numbers", func(*bed) *nats.Msg { return with(claim(""), enrich.HeaderSource, "ORDERS 40", "ORDERS 41") }, []verify.FaultKind{verify.Foreign}},
	{"another source", func(*bed) *nats.Msg { return claim("OTHER 40") }, []verify.FaultKind{verify.Foreign}},

	{"number just beyond the source", func(*bed) *nats.Msg { return claim("ORDERS 63") }, []verify.FaultKind{verify.Unknown}},
	{"number beyond the source", func(*bed) *nats.Msg { return claim("ORDERS 1000") }, []verify.FaultKind{verify.Unknown}},
	{"number beyond the source, with evidence", func(*bed) *nats.Msg { return with(claim("ORDERS 1000"), enrich.HeaderChain, chain+" 1") }, []verify.FaultKind{verify.Unknown}},
	{"number that is the highest", func(*bed) *nats.Msg { return claim("ORDERS " + strconv.FormatUint(math.MaxUint64, 10)) }, []verify.FaultKind{verify.Unknown}},
	{"copy with a number beyond the source", func(b *bed) *nats.Msg { return with(b.clone(8), enrich.HeaderSource, "ORDERS 1000") }, []verify.FaultKind{verify.Unknown}},

	{"number of an event outside the filter", func(*bed) *nats.Msg { return claim("ORDERS 61") }, []verify.FaultKind{verify.Foreign}},
	{"number of an earlier event", func(*bed) *nats.Msg { return claim("ORDERS 8") }, []verify.FaultKind{verify.Changed}},
	{"copy of an earlier event", func(b *bed) *nats.Msg { return b.clone(8) }, []verify.FaultKind{verify.Doubled}},
	{"copy with another ID", func(b *bed) *nats.Msg { return with(b.clone(8), enrich.HeaderID, "9000") }, []verify.FaultKind{verify.BadID}},
	{"copy with malformed evidence", func(b *bed) *nats.Msg { return with(b.clone(8), enrich.HeaderChain, "forged") }, []verify.FaultKind{verify.Foreign}},
	{"number of a dead letter before", func(*bed) *nats.Msg { return claim("ORDERS 20") }, []verify.FaultKind{verify.Changed}},

	{"number of a later event", func(*bed) *nats.Msg { return claim("ORDERS 49") }, []verify.FaultKind{verify.Changed}},
	{"number of a later event, without ID", func(*bed) *nats.Msg { return with(claim("ORDERS 49"), enrich.HeaderID) }, []verify.FaultKind{verify.BadID}},
	{"number of the next event", func(*bed) *nats.Msg { return claim("ORDERS 31") }, []verify.FaultKind{verify.Changed}},
	{"number of the last event", func(*bed) *nats.Msg { return claim("ORDERS 59") }, []verify.FaultKind{verify.Changed}},
	{"number of a dead letter to come", func(*bed) *nats.Msg { return claim("ORDERS 40") }, []verify.FaultKind{verify.Changed}},
	{"number of an event after that", func(*bed) *nats.Msg { return claim("ORDERS 41") }, []verify.FaultKind{verify.Changed}},
	{"headers of a later event", func(b *bed) *nats.Msg {
		m := b.clone(49)
		m.Data = []byte(`{"n":1,"id":"9000"}`)
		return with(m, enrich.HeaderID, "9000")
	}, []verify.FaultKind{verify.Changed}},
	{"later event with another ID in the header", func(b *bed) *nats.Msg { return with(b.clone(49), enrich.HeaderID, "9000") }, []verify.FaultKind{verify.BadID}},
	{"later event on another subject", func(b *bed) *nats.Msg {
		m := b.clone(49)
		m.Subject = "orders.ready.fr.1"
		return m
	}, []verify.FaultKind{verify.Changed}},
	{"later event on a subject where its ID is that of another", func(b *bed) *nats.Msg {
		m := b.clone(49)
		m.Subject = "orders.ready.de.1"
		return m
	}, []verify.FaultKind{verify.Changed}},
	{"later event with malformed evidence", func(b *bed) *nats.Msg { return with(b.clone(49), enrich.HeaderChain, "forged") }, []verify.FaultKind{verify.Foreign}},
	{"later event for another target", func(b *bed) *nats.Msg { return with(b.clone(49), enrich.HeaderChain, "OTHER chain1") }, []verify.FaultKind{verify.Foreign}},
	{"later event that was stored at another time", func(b *bed) *nats.Msg { return with(b.clone(49), enrich.HeaderChain, chain+" 1") }, []verify.FaultKind{verify.Unknown}},
	{"later event without evidence", func(b *bed) *nats.Msg {
		m := b.clone(49)
		m.Header[enrich.HeaderChain] = nil
		return m
	}, []verify.FaultKind{verify.Foreign}},
	{"next event with malformed evidence", func(b *bed) *nats.Msg { return with(b.clone(31), enrich.HeaderChain, "forged") }, []verify.FaultKind{verify.Foreign}},
	{"later event that the source has removed", func(*bed) *nats.Msg { return claim("ORDERS 62") }, []verify.FaultKind{verify.Order}},
}

// TestForgedMessage: a foreign message between the events is a single finding,
// and makes no event wrong.
func TestForgedMessage(t *testing.T) {
	t.Parallel()
	for _, f := range forgings {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, 60)
			b.stream(readyConfig(b)) // older than the events
			b.source = append(b.source, &nats.Msg{Subject: "orders.test"}, &nats.Msg{Subject: "orders.raw.de.62"})
			place := b.at(31)
			b.insert(31, f.make(b))
			b.fill()
			b.delete("ORDERS", 62)
			r := b.verify(b.config())
			var kinds []verify.FaultKind
			for _, finding := range r.Findings {
				kinds = append(kinds, finding.Kind)
			}
			if !slices.Equal(kinds, f.want) || len(kinds) > 0 && r.Findings[0].Target != uint64(place+1) || r.Events != 57 || r.Dead != 3 || r.Waiting > 0 {
				t.Errorf("%v, %d events, %d dead letters, %d waiting; want %v, 57 events and 3 dead letters", kinds, r.Events, r.Dead, r.Waiting, f.want)
			}
		})
	}
}

// TestManyForgedMessages: with many of them, anywhere, all events are still in
// order.
func TestManyForgedMessages(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, 60)
			b.stream(readyConfig(b))
			b.source = append(b.source, &nats.Msg{Subject: "orders.test"}, &nats.Msg{Subject: "orders.raw.de.62"})
			var forged []*nats.Msg
			for _, f := range forgings {
				if !slices.Contains(f.want, verify.Doubled) && !slices.Contains(f.want, verify.Order) { // may be an event
					forged = append(forged, f.make(b))
				}
			}
			random := rand.New(rand.NewPCG(seed, 0))
			for _, m := range forged {
				b.enriched = slices.Insert(b.enriched, random.IntN(len(b.enriched)), m)
			}
			b.fill()
			b.delete("ORDERS", 62)
			r := b.verify(b.config())
			if r.Faults[verify.Missing] > 0 || r.Faults[verify.Order] > 0 || r.Faults[verify.Doubled] > 0 || r.Events < 57 || r.Dead != 3 || r.Waiting > 0 {
				t.Errorf("%v, %d events, %d dead letters, %d waiting; want 57 events and 3 dead letters, once and in order", r.Faults, r.Events, r.Dead, r.Waiting)
			}
		})
	}
}

// TestExactCopy: an exact copy of a later event counts as that event. The
// findings are true of the target: that event is doubled, and those in between
// are behind it.
func TestExactCopy(t *testing.T) {
	t.Parallel()
	b := newBed(t, 60)
	b.stream(readyConfig(b))
	b.insert(31, b.clone(39))
	b.fill()
	r := b.verify(b.config())
	if r.Faults[verify.Doubled] != 1 || r.Faults[verify.Order] != 8 || len(r.Faults) != 2 || r.Events != 57 {
		t.Errorf("%v, %d events; want 8 of 57 out of order and one doubled", r.Faults, r.Events)
	}
}

// TestForgedMeanwhile: a message with the number of an event that the source
// stores during the read proves nothing either.
func TestForgedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBed(t, 60)
	b.stream(readyConfig(b))
	late := b.enriched[30:]
	b.enriched = b.enriched[:30]
	b.fill()
	cfg := b.config()
	cfg.Wait = natstest.Patience
	v, err := verify.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan *verify.Verification)
	go func() {
		r, err := v.Run(t.Context())
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	natstest.Eventually(t, "the point to be fixed", func() bool { _, point := v.Progress(); return point > 0 })
	b.publish(&nats.Msg{Subject: "orders.raw.de.61", Data: []byte(`{}`)})
	b.enriched = slices.Concat([]*nats.Msg{claim("ORDERS 61")}, late)
	b.publish(b.enriched...)
	b.expectClean(<-done, 57)
}

// TestSpoiltEventExplains: an event with a fault is not missing, and messages
// removed before it explain the events that were there.
func TestSpoiltEventExplains(t *testing.T) {
	t.Parallel()
	b := newBed(t, 60)
	b.stream(readyConfig(b))
	b.replace(10, func(m *nats.Msg) { m.Data = []byte(`{"n":9,"id":"5"}`) })
	b.fill()
	b.delete("READY", 5, 6, 7, 8, 9)
	r := b.verify(b.config())
	if len(r.Findings) != 1 || r.Findings[0].Kind != verify.Changed || r.Gone != 5 || r.Events != 52 {
		t.Errorf("%+v, want event 10 to be changed, and 5 to be gone", r)
	}
}
