package enrich

import (
	"cmp"
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// put writes a record as a dead enricher left it. The streams are those of the
// bed.
func (b *bed) put(r enrichmentRecord) {
	b.Helper()
	b.putFor(b.config(), r)
}

// putFor is put with other settings.
func (b *bed) putFor(cfg Config, r enrichmentRecord) {
	b.Helper()
	r.settings, r.Chain = cfg.withDefaults().settings(), cmp.Or(r.Chain, "CHAIN")
	e, err := Open(b.Context(), cfg) // creates the bucket
	if err != nil {
		b.Fatal(err)
	}
	r.SourceCreated, r.TargetCreated = e.source.CachedInfo().Created, e.target.CachedInfo().Created
	kv, err := b.js.KeyValue(b.Context(), BucketName(messages.DefaultPrefix))
	if err != nil {
		b.Fatal(err)
	}
	value, err := json.Marshal(r)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := kv.Put(b.Context(), "READY", value); err != nil {
		b.Fatal(err)
	}
}

// A plan without events, as a batch of dead letters leaves it, is done,
// whatever was stored in the target since.
func TestPlanWithoutEvents(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, 5)
	b.event("orders.dead", "somebody else's", nil)
	b.publish(6, 10)
	b.put(enrichmentRecord{Plans: []plan{{Through: 5}}})
	b.start(b.config())
	b.await(6)
	if got := string(b.stored("READY", "orders.ready.>")[0].Data()); got != "6" {
		t.Errorf("event %s first, want 6", got)
	}
}

// A dead letter in the target stands for its event only, not for the events
// before it.
func TestDeadLetterIsNoArrival(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, 9)
	s := stamper{source: "ORDERS", chain: "CHAIN", letterLimit: 1 << 20}
	msg := s.makeDeadLetter("orders.dead", event{Sequence: 5, Time: b.storedAt(5), Subject: "orders.raw.5"}, errUnstampable)
	if _, err := b.js.PublishMsg(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	b.put(enrichmentRecord{Chain: "CHAIN", Plans: []plan{{Through: 9, Runs: []run{{1, 9}}}}})
	b.start(b.config())
	b.await(2)
	if got := string(b.stored("READY", "orders.ready.>")[0].Data()); got != "1" {
		t.Fatalf("event %s first, want 1", got)
	}
	b.await(10)
	b.expectAll(9)
}

// An event that is a dead letter of another enrichment is enriched like any
// other.
func TestDeadLetterIsEnriched(t *testing.T) {
	msg, _, err := stamper{source: "S", mapping: mapping{[]string{">"}, []string{">"}}, limit: 1 << 20}.draft(
		event{Sequence: 7, Subject: "a", Header: nats.Header{HeaderError: {"bad"}, HeaderSubject: {"b"}}})
	if err != nil {
		t.Fatal(err)
	}
	if o := parseOrigin(msg.Header); o.source != "S" || o.seq != 7 || o.letter {
		t.Errorf("origin %+v, want event 7 of S", o)
	}
}
