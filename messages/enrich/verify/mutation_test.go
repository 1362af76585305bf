package verify_test

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/messages/enrich/verify"
	"github.com/idworker/idworker/testing/enriched"
)

// at returns the place in the target, from 0 on, of an event of the source.
func (b *bed) at(event int) int {
	b.Helper()
	for i, m := range b.enriched {
		if m.Header.Get(enrich.HeaderSource) == "ORDERS "+strconv.Itoa(event) {
			return i
		}
	}
	b.Fatalf("event %d is not in the target", event)
	return 0
}

// clone copies an event of the target.
func (b *bed) clone(event int) *nats.Msg {
	m := *b.enriched[b.at(event)]
	m.Header = nats.Header{}
	for name, values := range b.enriched[b.at(event)].Header {
		m.Header[name] = slices.Clone(values)
	}
	return &m
}

func (b *bed) replace(event int, change func(m *nats.Msg)) {
	m := b.clone(event)
	change(m)
	b.enriched[b.at(event)] = m
}

func (b *bed) insert(before int, m *nats.Msg) {
	b.enriched = slices.Insert(b.enriched, b.at(before), m)
}

func setID(id string) func(*nats.Msg) {
	return func(m *nats.Msg) { m.Header[enrich.HeaderID] = []string{id} }
}

// setChain moves the events from an event on to another chain.
func (b *bed) setChain(from int, chain string) {
	for event := from; event <= b.events; event++ {
		if !isDead(event) {
			b.replace(event, func(m *nats.Msg) {
				m.Header[enrich.HeaderChain] = []string{chain}
			})
		}
	}
}

// TestMutations changes the target as an enricher must never do. Each change is
// found and named, and the plain checker finds the same.
//
// Of 60 events 20, 40 and 60 are dead letters. Even events are of tag de, odd
// events of fr, so event 8 has the ID 4 and is at 8 of the target; event 25 has
// 13 and is at 24.
func TestMutations(t *testing.T) {
	foreignAndMissing := []verify.Finding{
		{Kind: verify.Foreign, Source: 8, Target: 8, Subject: "orders.ready.de.8", IDs: []string{"4"}},
		{Kind: verify.Missing, Source: 8, Target: 9, Subject: "orders.raw.de.8"},
	}
	for _, c := range []struct {
		name   string
		mutate func(b *bed)
		want   []verify.Finding
	}{
		{"nothing", func(*bed) {}, nil},
		{"event dropped", func(b *bed) { b.enriched = slices.Delete(b.enriched, b.at(8), b.at(8)+1) },
			[]verify.Finding{{Kind: verify.Missing, Source: 8, Target: 8, Subject: "orders.raw.de.8"}}},
		{"first event dropped", func(b *bed) { b.enriched = b.enriched[1:] },
			[]verify.Finding{{Kind: verify.Missing, Source: 1, Target: 1, Subject: "orders.raw.fr.1"}}},
		{"event doubled at once", func(b *bed) { b.insert(9, b.clone(8)) },
			[]verify.Finding{{Kind: verify.Doubled, Source: 8, Target: 9, Subject: "orders.ready.de.8", IDs: []string{"4"}}}},
		{"event doubled with another ID", func(b *bed) {
			m := b.clone(8)
			m.Header[enrich.HeaderID], m.Data = []string{"9000"}, []byte(`{"n":8,"id":"9000"}`)
			b.insert(25, m)
		}, []verify.Finding{{Kind: verify.Doubled, Source: 8, Target: 24, Subject: "orders.ready.de.8", IDs: []string{"9000"}}}},
		{"events swapped", func(b *bed) {
			b.enriched[b.at(8)], b.enriched[b.at(9)] = b.enriched[b.at(9)], b.enriched[b.at(8)]
		}, []verify.Finding{{Kind: verify.Order, Source: 8, Target: 9, Subject: "orders.ready.de.8", IDs: []string{"4"}}}},
		{"event late", func(b *bed) {
			m := b.clone(8)
			b.insert(25, m)
			b.enriched = slices.Delete(b.enriched, 7, 8)
		}, []verify.Finding{{Kind: verify.Order, Source: 8, Target: 23, Subject: "orders.ready.de.8", IDs: []string{"4"}}}},
		{"ID shared", func(b *bed) {
			b.replace(48, func(m *nats.Msg) { setID("4")(m); m.Data = []byte(`{"n":48,"id":"4"}`) })
		}, []verify.Finding{{Kind: verify.SharedID, Source: 48, Target: 46, Subject: "orders.ready.de.48", IDs: []string{"4"}}}},
		{"ID of the other tag is not shared", func(b *bed) {
			b.replace(58, func(m *nats.Msg) { setID("9001")(m); m.Data = []byte(`{"n":58,"id":"9001"}`) })
			b.replace(59, func(m *nats.Msg) { setID("9001")(m); m.Data = []byte(`{"n":59,"id":"9001"}`) })
		}, nil},
		{"ID shared with a kept one", func(b *bed) {
			b.replace(48, func(m *nats.Msg) { setID(keptID)(m); m.Data = []byte(`{"n":48,"id":"` + keptID + `"}`) })
		}, []verify.Finding{{Kind: verify.SharedID, Source: 48, Target: 46, Subject: "orders.ready.de.48", IDs: []string{keptID}}}},
		{"ID changed in the header", func(b *bed) { b.replace(8, setID("5000")) },
			[]verify.Finding{{Kind: verify.BadID, Source: 8, Target: 8, Subject: "orders.ready.de.8", IDs: []string{"5000"}}}},
		{"ID changed in the JSON", func(b *bed) { b.replace(8, func(m *nats.Msg) { m.Data = []byte(`{"n":8,"id":"5"}`) }) },
			[]verify.Finding{{Kind: verify.BadID, Source: 8, Target: 8, Subject: "orders.ready.de.8", IDs: []string{"4"}}}},
		{"kept ID changed", func(b *bed) { b.replace(keptEvent, setID("777778")) },
			[]verify.Finding{{Kind: verify.BadID, Source: 30, Target: 29, Subject: "orders.ready.de.30", IDs: []string{"777778"}}}},
		{"no ID", func(b *bed) { b.replace(8, func(m *nats.Msg) { m.Header.Del(enrich.HeaderID) }) },
			[]verify.Finding{{Kind: verify.BadID, Source: 8, Target: 8, Subject: "orders.ready.de.8"}}},
		{"ID zero", func(b *bed) { b.replace(8, setID("0")) },
			[]verify.Finding{{Kind: verify.BadID, Source: 8, Target: 8, Subject: "orders.ready.de.8", IDs: []string{"0"}}}},
		{"foreign message in between", func(b *bed) { b.insert(8, &nats.Msg{Subject: "orders.ready.de.1", Data: []byte("hello")}) },
			[]verify.Finding{{Kind: verify.Foreign, Target: 8, Subject: "orders.ready.de.1"}}},
		{"event of another source in between", func(b *bed) {
			b.insert(8, &nats.Msg{Subject: "orders.ready.de.1", Header: nats.Header{enrich.HeaderSource: {"OTHER 8"}, enrich.HeaderID: {"99"}}})
		}, []verify.Finding{{Kind: verify.Foreign, Target: 8, Subject: "orders.ready.de.1", IDs: []string{"99"}}}},
		{"message on another subject in between", func(b *bed) { b.insert(8, &nats.Msg{Subject: "other", Header: nats.Header{"Ids-Error": {"x"}}}) }, nil},
		{"dead letter missing", func(b *bed) { b.dead = b.dead[1:] },
			[]verify.Finding{{Kind: verify.Missing, Source: 20, Target: 20, Subject: "orders.raw.de.20"}}},
		{"dead letter twice", func(b *bed) { b.dead = append(b.dead, b.dead[0]) }, nil},
		{"body changed", func(b *bed) { b.replace(8, func(m *nats.Msg) { m.Data = []byte(`{"n":9,"id":"4"}`) }) },
			[]verify.Finding{{Kind: verify.Changed, Source: 8, Target: 8, Subject: "orders.ready.de.8", IDs: []string{"4"}}}},
		{"header changed", func(b *bed) { b.replace(8, func(m *nats.Msg) { m.Header.Set("Trace", "9") }) },
			[]verify.Finding{{Kind: verify.Changed, Source: 8, Target: 8, Subject: "orders.ready.de.8", IDs: []string{"4"}}}},
		{"header dropped", func(b *bed) { b.replace(8, func(m *nats.Msg) { m.Header.Del("Trace") }) },
			[]verify.Finding{{Kind: verify.Changed, Source: 8, Target: 8, Subject: "orders.ready.de.8", IDs: []string{"4"}}}},
		{"subject changed", func(b *bed) { b.replace(8, func(m *nats.Msg) { m.Subject = "orders.ready.de.9" }) },
			[]verify.Finding{{Kind: verify.Changed, Source: 8, Target: 8, Subject: "orders.ready.de.9", IDs: []string{"4"}}}},
		{"another chain goes on", func(b *bed) { b.setChain(31, "READY chain2") }, nil},
		{"chain that had ended", func(b *bed) {
			b.setChain(31, "READY chain2")
			b.replace(41, func(m *nats.Msg) { m.Header.Del(enrich.HeaderChain) })
		}, []verify.Finding{{Kind: verify.Foreign, Source: 41, Target: 39, Subject: "orders.ready.fr.41", IDs: []string{"21"}}}},
		{"published for another target", func(b *bed) { b.setChain(59, "OTHER chain1") },
			[]verify.Finding{{Kind: verify.Foreign, Source: 59, Target: 57, Subject: "orders.ready.fr.59", IDs: []string{"30"}}}},
		{"malformed evidence", func(b *bed) {
			b.replace(8, func(m *nats.Msg) { m.Header[enrich.HeaderChain] = []string{"something"} })
		}, foreignAndMissing},
		{"no evidence", func(b *bed) {
			b.replace(8, func(m *nats.Msg) { m.Header[enrich.HeaderChain] = nil })
		}, foreignAndMissing},
		{"made of another event", func(b *bed) {
			b.replace(8, func(m *nats.Msg) { m.Header[enrich.HeaderChain] = []string{chain + " 1"} })
		}, []verify.Finding{
			{Kind: verify.Unknown, Source: 8, Target: 8, Subject: "orders.ready.de.8", IDs: []string{"4"}},
			{Kind: verify.Missing, Source: 8, Target: 9, Subject: "orders.raw.de.8"},
		}},
		{"of another event again", func(b *bed) {
			m := b.clone(8)
			m.Header[enrich.HeaderID], m.Data = []string{"9000"}, []byte(`{"n":8,"id":"9000"}`)
			m.Header[enrich.HeaderChain] = []string{chain + " 1"}
			b.insert(25, m)
		}, []verify.Finding{{Kind: verify.Unknown, Source: 8, Target: 24, Subject: "orders.ready.de.8", IDs: []string{"9000"}}}},
		{"dead letter of another enrichment", func(b *bed) { b.dead[0].Header[enrich.HeaderChain] = []string{"OTHER chain1"} },
			[]verify.Finding{{Kind: verify.Missing, Source: 20, Target: 20, Subject: "orders.raw.de.20"}}},
		{"dead letter without evidence", func(b *bed) { b.dead[0].Header[enrich.HeaderChain] = nil },
			[]verify.Finding{{Kind: verify.Missing, Source: 20, Target: 20, Subject: "orders.raw.de.20"}}},
		{"dead letter of another event", func(b *bed) { b.dead[0].Header[enrich.HeaderChain] = []string{chain + " 1"} },
			[]verify.Finding{{Kind: verify.Missing, Source: 20, Target: 20, Subject: "orders.raw.de.20"}}},
		{"event on another subject too", func(b *bed) {
			m := b.clone(8)
			m.Subject = "other"
			b.insert(9, m)
		}, []verify.Finding{{Kind: verify.Foreign, Source: 8, Target: 9, Subject: "other", IDs: []string{"4"}}}},
		{"the server's note of a removed message", func(b *bed) {
			b.insert(9, &nats.Msg{Subject: "orders.ready.de.1", Header: nats.Header{"Nats-Marker-Reason": {"MaxAge"}}})
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, 60)
			b.stream(readyConfig(b)) // older than the events
			c.mutate(b)
			b.fill()
			r := b.verify(b.config())
			var got []verify.Finding
			var same []enriched.Flaw
			for _, f := range r.Findings {
				f.Detail = ""
				got, same = append(got, f), append(same, enriched.Flaw{Kind: string(f.Kind), Source: f.Source})
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("found %+v\nwant  %+v", got, c.want)
			}
			plain, _, _ := b.brute()
			// The missing events are in different places.
			for _, found := range [][]enriched.Flaw{plain, same} {
				slices.SortStableFunc(found, func(a, b enriched.Flaw) int { return strings.Compare(a.Kind, b.Kind) })
			}
			if !slices.Equal(plain, same) {
				t.Errorf("the plain checker finds %v", plain)
			}
			cfg := b.config()
			cfg.NoConsumers = true
			if again := b.verify(cfg); !reflect.DeepEqual(again.Findings, r.Findings) {
				t.Errorf("without consumers %+v, with them %+v", again.Findings, r.Findings)
			}
		})
	}
}
