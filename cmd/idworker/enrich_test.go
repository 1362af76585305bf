package main

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap/zapcore"

	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/testing/natstest"
)

// TestEnrichedFields: the last log line has readable durations.
func TestEnrichedFields(t *testing.T) {
	fields := zapcore.NewMapObjectEncoder()
	for _, f := range enrichedFields(enrich.Figures{Events: 7, Oldest: 6002216194 * time.Nanosecond}) {
		f.AddTo(fields)
	}
	if fields.Fields["oldest"] != "6.0s" || fields.Fields["events"] != int64(7) {
		t.Errorf("%v", fields.Fields)
	}
}

// TestEnrichRm: a finished enrichment leaves the status, but not while an
// enricher works.
func TestEnrichRm(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	js := natstest.JetStream(t, s.nats.Connect(t))
	natstest.CreateStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.raw.>"}})
	natstest.CreateStream(t, js, jetstream.StreamConfig{Name: "ORDERS_READY", Subjects: []string{"orders.ready.>"}, AllowAtomicPublish: true})
	stop := s.background("enrich", "--log-level", "error", "--server", s.url, "--from", "ORDERS", "--to", "orders.ready.>", "--id", "snowflake")
	inStatus := func() bool { return strings.Contains(s.must("status"), "ORDERS_READY") }
	natstest.Eventually(t, "the enrichment is in the status", inStatus)
	if r := s.at("enrich rm ORDERS ORDERS_READY"); r.code != exitFailure || !strings.Contains(r.stderr, "an enricher is running") || !strings.Contains(r.stderr, "stop its enrichers first") {
		t.Errorf("while it is at work: %+v", r)
	}
	stop()
	if r := s.at("enrich rm OTHER ORDERS_READY"); r.code != exitUsage || !strings.Contains(r.stderr, "no record") {
		t.Errorf("another source: %+v", r)
	}
	removed := object(t, s.must("enrich rm ORDERS ORDERS_READY --json"))
	if removed["source"] != "ORDERS" || removed["target"] != "ORDERS_READY" || removed["done"] != 0. || inStatus() {
		t.Errorf("removed %v, in the status %v", removed, inStatus())
	}
}
