package enrich

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
)

// A dead letter that is too large for its stream, the target or another, omits
// the event and the end of a long subject.
func TestDeadLetterFits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		ready int32 // the largest message
		// That of the stream of dead letters; 0 if the target takes them.
		dead int32
	}{{"in the target", 1024, 0}, {"in another stream", -1, 700}, {"in another stream with more room", 1024, 5000}} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			target, letters := readyConfig, "READY"
			if target.MaxMsgSize = c.ready; c.dead > 0 {
				target.Subjects, letters = []string{"orders.ready.>"}, "DEAD"
				b.stream(target)
				b.stream(jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"orders.dead"}, MaxMsgSize: c.dead})
			}
			b.stream(target)
			cfg := b.config()
			cfg.JSON = "id"
			b.event("orders.raw."+strings.Repeat("y", 900), strings.Repeat("x", 3000), nil)
			b.event("orders.raw.1", "{}", nil)
			<-b.js.PublishAsyncComplete()
			if b.start(cfg); c.dead > 0 {
				b.await(1)
			} else {
				b.await(2)
			}
			dead := b.stored(letters, "orders.dead")
			if len(dead) != 1 {
				t.Fatalf("%d dead letters, want 1", len(dead))
			}
			h := dead[0].Headers()
			if whole := len(dead[0].Data()) == 3000; whole != (c.dead == 5000) || h.Get(HeaderSource) != "ORDERS 1" ||
				h.Get(HeaderChain) == "" || !strings.Contains(h.Get(HeaderError), "cannot be stamped") || !strings.HasPrefix(h.Get(HeaderSubject), "orders.raw.y") {
				t.Errorf("the whole event: %v, headers %v", whole, h)
			}
		})
	}
}

// A dead letter that fits nowhere is a failure, not a crash.
func TestDeadLetterFitsNowhere(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	target := readyConfig
	target.MaxMsgSize = 300
	b.stream(target)
	b.event("orders.raw.1", strings.Repeat("x", 3000), nil)
	e, _ := b.start(b.hastyConfig())
	natstest.Eventually(t, "the enrichment stands still", func() bool { return e.Ready() != nil })
	target.MaxMsgSize = 1024
	b.stream(target)
	b.await(1)
}

// A stream of dead letters that does not answer for a while does not stop the
// enrichment for good, even if few publishes may wait.
func TestDeadLettersAreAway(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	target, dead := readyConfig, jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"orders.dead"}}
	target.Subjects = []string{"orders.ready.>"}
	b.stream(target)
	b.stream(dead)
	cfg := b.hastyConfig()
	cfg.JSON = "id"
	var err error
	if cfg.JetStream, err = jetstream.New(b.conn, jetstream.WithPublishAsyncMaxPending(4)); err != nil {
		t.Fatal(err)
	}
	e, _ := b.start(cfg)
	mute, err := b.conn.SubscribeSync("orders.dead")
	if err != nil {
		t.Fatal(err)
	}
	dead.Subjects = []string{"elsewhere"}
	b.stream(dead)
	for range 8 {
		b.event("orders.raw.1", "not JSON", nil)
	}
	natstest.Eventually(t, "the enrichment stands still", func() bool { return e.Ready() != nil })
	if err := mute.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	dead.Subjects = []string{"orders.dead"}
	b.stream(dead)
	b.event("orders.raw.1", "{}", nil)
	b.await(1)
	if n := b.count("DEAD"); n != 8 {
		t.Errorf("%d dead letters, want 8", n)
	}
}

// Planned events are read again before they are published. Another event at the
// same sequence is not published in place of the planned event.
func TestPlannedEventIsAnother(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	cfg := b.config()
	cfg.Filter, cfg.To = "orders.raw.*", "orders.ready.*"
	b.stream(jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.raw.*", "orders"}})
	b.event("orders", "1", nil)
	b.event("orders.raw.1", "2", nil)
	<-b.js.PublishAsyncComplete()
	at := b.storedAt(1)
	b.putFor(cfg, enrichmentRecord{Plans: []plan{{1, at, []run{{1, 1}}}}})
	b.start(cfg)
	b.await(1)
	if msgs := b.stored("READY", ">"); len(msgs) != 1 || string(msgs[0].Data()) != "2" {
		t.Errorf("%d messages, the first %s", len(msgs), msgs[0].Data())
	}
}

// A plan has the time of its last event: the source is another stream if that
// event has another time, or if it ends before.
func TestPlanOfAnotherSource(t *testing.T) {
	t.Parallel()
	for _, through := range []uint64{2, 3} {
		b := newBed(t)
		b.publish(1, 2)
		b.put(enrichmentRecord{Plans: []plan{{through, time.Now().Add(-time.Hour), []run{{1, through}}}}})
		e, _ := b.start(b.config())
		natstest.Eventually(t, "the enrichment stands still", func() bool { return e.Ready() != nil })
		if reason := e.figures.reason(); reason != "undecided" || b.count("READY") > 0 {
			t.Errorf("it stands still for the reason %q, %d messages in the target", reason, b.count("READY"))
		}
	}
}

// A subject that is not UTF-8 is preserved, even if the event is read again by
// its sequence.
func TestSubjectIsNotUTF8(t *testing.T) {
	t.Parallel()
	for _, planned := range []bool{false, true} {
		b := newBed(t)
		if err := b.conn.Publish("orders.raw.\xff\xfe", []byte("1")); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "the event", func() bool { return b.count("ORDERS") == 1 })
		if planned {
			b.put(enrichmentRecord{Plans: []plan{{1, b.storedAt(1), []run{{1, 1}}}}})
		}
		b.start(b.config())
		b.await(1)
		if got := b.stored("READY", ">")[0].Subject(); got != "orders.ready.\xff\xfe" {
			t.Errorf("planned %v: the event is on %q", planned, got)
		}
	}
}

// Each enricher counts a loss once, even if it restarts there repeatedly.
func TestLossIsCountedOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	cfg := b.config()
	cfg.OnLoss = Stop
	b.publish(1, 20)
	source, err := b.js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	at := b.storedAt(1)
	if err := source.Purge(t.Context(), jetstream.WithPurgeSequence(11)); err != nil {
		t.Fatal(err)
	}
	b.put(enrichmentRecord{Done: 1, Time: at})
	e := b.open(cfg)
	for range 3 {
		if err := e.loadRecord(t.Context()); err != nil {
			t.Fatal(err)
		}
		owned(b, e, func(p *preparer) {
			if out := <-p.out; out.err == nil {
				t.Error("the loss is passed over")
			}
		})
	}
	if n := e.Figures().Lost; n != 9 {
		t.Errorf("%d events lost, want 9", n)
	}
	if err := source.Purge(t.Context(), jetstream.WithPurgeSequence(13)); err != nil {
		t.Fatal(err)
	}
	owned(b, e, func(p *preparer) { <-p.out })
	if n := e.Figures().Lost; n != 11 {
		t.Errorf("%d events lost, want 11", n)
	}
}

// owned makes an enricher take the turn and prepare batches until f returns.
func owned(b *bed, e *Enricher, f func(*preparer)) {
	b.Helper()
	if err := e.takeOver(b.Context()); err != nil {
		b.Fatal(err)
	}
	tail := b.tail(e)
	defer tail.Close()
	p := e.newPreparer(tail, e.record.Done)
	defer p.close()
	f(p)
}

// A JSON object with the key twice would have two IDs, the producer's among
// them.
func TestJSONKeyTwice(t *testing.T) {
	for data, bad := range map[string]bool{
		`{"a":{"id":null,"id":"777"}}`:         true,
		`{"a":{"id":null,"\u0069d":"777"}}`:    true,
		`{"a":{"id":null},"a":{"id":"777"}}`:   true,
		`{"a":null,"\u0061":{}}`:               true,
		`{"a":{"\u0069d":null},"id":1}`:        false,
		`{"a":{"x":{"id":1},"id":null}}`:       false,
		`{"b":{"id":1},"c":[{"id":1},"a"]}`:    false,
		`{"a":{"id":null, "x":"\"id\":null"}}`: false,
	} {
		p := jsonPath{keys: "a.id"}
		err := p.check([]byte(data))
		if (err != nil) != bad {
			t.Errorf("%s: %v", data, err)
		}
		if err != nil {
			continue
		}
		out, err := p.setID([]byte(data), 5)
		if again := p.check(out); err != nil || again == nil || !strings.Contains(again.Error(), `already has "\"5\""`) {
			t.Errorf("%s became %s: %v, %v", data, out, err, again)
		}
	}
}
