package monitoring

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
)

// eventsStory is about enrichment: a process that issues IDs, and an enricher.
func eventsStory(t *testing.T) {
	s := newSite(t)
	serving := s.ready("all", "serve", "--new")
	s.run("tag", "create", "order", "--step", "100000")
	js := natstest.JetStream(t, s.connect())
	source := jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.raw.>"}}
	natstest.CreateStream(t, js, source)
	natstest.CreateStream(t, js, jetstream.StreamConfig{Name: "READY", Subjects: []string{"orders.ready.>", "orders.dead"}, AllowAtomicPublish: true})
	start := func() *program {
		return s.ready("enricher", "enrich", "--from", "ORDERS", "--to", "orders.ready.>", "--filter", "orders.raw.>",
			"--id", "segment:order", "--existing", "refuse", "--dead-letter", "orders.dead")
	}
	enricher := start()
	publish := func(events int, header nats.Header) {
		for range events {
			if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "orders.raw.de", Header: header, Data: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	keeps := func(events int64) {
		source.MaxMsgs = events
		if _, err := js.UpdateStream(t.Context(), source); err != nil {
			t.Fatal(err)
		}
	}
	s.healthy(75*time.Minute, func() { publish(1, nil) })
	installation := s.query("idworker_enrich_failing")[0].Metric.Get("installation")

	s.all([]fault{{
		alerts: []string{"DeadLetters"},
		what:   "an event has an ID already, with --existing refuse",
		cause:  func() { publish(3, nats.Header{"Ids-Id": {"7"}}) },
		cure:   func() {},
	}, {
		alerts: []string{"EnrichingFails", "EnrichingLags"},
		what:   "no worker issues IDs",
		cause: func() {
			s.crash(serving)
			publish(1, nil)
		},
		cure: func() {
			s.forget(serving.http)
			serving = s.ready("all", "serve")
		},
		pace: time.Second,
	}, {
		alerts: []string{"NoEnrichers"},
		what:   "the only enricher was stopped",
		cause:  func() { s.stop(enricher) },
		cure:   func() { enricher = start() },
	}, {
		alerts: []string{"EventsLost"},
		what:   "a source of five events got 20 while its enricher was away",
		cause: func() {
			s.stop(enricher)
			s.advance(30 * time.Minute)
			keeps(5)
			publish(20, nil)
			enricher = start()
			natstest.Eventually(t, "it counts the loss before its first scrape", func() bool {
				return strings.Contains(string(fetch(enricher.http)), "\nidworker_enrich_lost_events_total{enrichment=\"ORDERS.READY\",installation=\""+installation+"\"} 15\n")
			})
		},
		cure: func() { keeps(-1) },
	}})
}
