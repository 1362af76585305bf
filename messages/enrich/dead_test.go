package enrich

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
)

// Events that cannot be stamped become dead letters with the reason, and delay
// no others.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(o *server.Options) { o.MaxPayload = 4096 })
	b.ids.tags = map[string]bool{"eu": true}
	cfg := b.config()
	cfg.Filter, cfg.To = "orders.raw.*", "orders.ready.*"
	cfg.ID, cfg.JSON, cfg.Existing = "segment:{{wildcard(1)}}", "order.id", Refuse

	for _, e := range []struct {
		subject, data, reason string
		header                nats.Header
	}{
		{"orders.raw.eu", `{`, "not a JSON object", nil},
		{"orders.raw.eu", `[1]`, "not a JSON object", nil},
		{"orders.raw.eu", ``, "not a JSON object", nil},
		{"orders.raw.eu", `{"order":7}`, "already has \"7\"", nil},
		{"orders.raw.eu", `{"order":{"id":"x"}}`, "already", nil},
		{"orders.raw.eu", `{"x":"` + strings.Repeat("x", 4000) + `"}`, "allowed is 4096", nil},
		{"orders.raw.us", `{}`, "tag us", nil},
		{"orders.raw.%", `{}`, "malformed tag", nil},
		{"orders.raw.eu", `{}`, "header Ids-Id is already set", nats.Header{"Ids-Id": {"5"}}},
		{"orders.raw.eu", `{}`, "header Ids-Id is already set", nats.Header{"ids-id": {"5"}}},
	} {
		b.event(e.subject, e.data, e.header)
		b.event("orders.raw.eu", `{"order": {"id":null , "n":1}}`, nil)
	}
	<-b.js.PublishAsyncComplete()
	b.start(cfg)
	b.await(20)

	good := b.stored("READY", "orders.ready.>")
	if len(good) != 10 {
		t.Errorf("%d good events, want 10", len(good))
	}
	for _, msg := range good {
		if want := fmt.Sprintf(`{"order": {"id":"%s" , "n":1}}`, msg.Headers().Get(HeaderID)); string(msg.Data()) != want {
			t.Errorf("event %s, want %s", msg.Data(), want)
		}
	}
	reasons := []string{"not a JSON object", "not a JSON object", "not a JSON object", `already has "7"`, "already", "allowed is 4096", "tag us", "tag", "header Ids-Id is already set", "header Ids-Id is already set"}
	for i, msg := range b.stored("READY", "orders.dead") {
		h := msg.Headers()
		if got := h.Get(HeaderError); !strings.Contains(got, reasons[i]) {
			t.Errorf("dead letter %d: %q, want %q", i, got, reasons[i])
		}
		if h.Get(HeaderSource) != fmt.Sprintf("ORDERS %d", 2*i+1) || !strings.HasPrefix(h.Get(HeaderSubject), "orders.raw.") {
			t.Errorf("dead letter %d does not say where it came from: %v", i, h)
		}
	}
}

// Without a dead-letter subject an event that cannot be stamped stops the
// enrichment.
func TestWithoutDeadLetterSubjectEnrichingStands(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	cfg := b.hastyConfig()
	cfg.JSON, cfg.DeadLetter = "id", ""
	b.event("orders.raw.eu", `broken`, nil)
	b.event("orders.raw.eu", `{}`, nil)
	<-b.js.PublishAsyncComplete()
	_, stop := b.start(cfg)
	natstest.Eventually(t, "a record", func() bool {
		kv, err := b.js.KeyValue(b.Context(), "ids_enrich")
		if err != nil {
			return false
		}
		entry, err := kv.Get(b.Context(), "READY")
		return err == nil && entry.Revision() > 2 // tried more than once
	})
	stop()
	if msgs := b.stored("READY", ">"); len(msgs) != 0 {
		t.Errorf("%d events in the target", len(msgs))
	}
	cfg.DeadLetter = "orders.dead"
	b.start(cfg)
	b.await(2)
}

// An event that has an ID keeps it, and only the others take IDs. Headers that
// instruct the server are not passed on.
func TestExistingIDIsKept(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.stream(jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.raw.>"}, AllowMsgTTL: true})
	b.event("orders.raw.1", "1", nats.Header{"Ids-Id": {"4711"}, "Own": {"x"}, "Nats-TTL": {"1h"}})
	b.event("orders.raw.2", "2", nats.Header{"Nats-Msg-Id": {"x"}, "Ids-Source": {"ORDERS 17"}})
	for _, bad := range []string{"0", "-1", "x", "01", "", "9223372036854775808", "1-2", "+1"} {
		b.event("orders.raw.3", "bad", nats.Header{"Ids-Id": {bad}})
	}
	b.event("orders.raw.3", "bad", nats.Header{"Ids-Id": {"1", "2"}})
	<-b.js.PublishAsyncComplete()
	b.start(b.config())
	b.await(11)
	msgs := b.stored("READY", "orders.ready.>")
	if len(msgs) != 2 {
		t.Fatalf("%d events, want 2", len(msgs))
	}
	for i, want := range []nats.Header{
		{"Ids-Id": {"4711"}, "Own": {"x"}, "Ids-Source": {"ORDERS 1"}},
		{"Ids-Id": {"1"}, "Ids-Source": {"ORDERS 2"}},
	} {
		got := msgs[i].Headers()
		for name := range got {
			if strings.HasPrefix(name, "Nats-Batch-") || name == jetstream.ExpectedLastSeqHeader || name == HeaderChain {
				delete(got, name)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("headers %v, want %v", got, want)
		}
	}
	if dead := b.stored("READY", "orders.dead"); len(dead) != 9 {
		t.Errorf("%d dead letters, want 9", len(dead))
	}
}
