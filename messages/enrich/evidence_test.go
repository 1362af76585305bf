package enrich

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// Tests of the evidence that an event has arrived.

// enrichOnce enriches the events of the source until the target has n messages.
func (b *bed) enrichOnce(cfg Config, n uint64) {
	b.Helper()
	_, stop := b.start(cfg)
	b.await(n)
	stop()
}

func (b *bed) deleteMsg(stream string, seq uint64) {
	b.Helper()
	s, err := b.js.Stream(b.Context(), stream)
	if err == nil {
		err = s.DeleteMsg(b.Context(), seq)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// records opens the bucket of records.
func (b *bed) records() jetstream.KeyValue {
	b.Helper()
	kv, err := b.js.KeyValue(b.Context(), BucketName(messages.DefaultPrefix))
	if err != nil {
		b.Fatal(err)
	}
	return kv
}

// The source has removed the event that was enriched last, as a limit for each
// subject or a TTL does: it still is the source if the remaining events on
// either side fit.
func TestSourceWithAHole(t *testing.T) {
	t.Parallel()
	var all []uint64 // enriched events
	for seq := uint64(1); seq <= steps; seq++ {
		all = append(all, seq)
	}
	for _, holes := range [][]uint64{{steps}, {steps - 1, steps}, {2, 3, steps, steps + 1}, all} {
		t.Run(fmt.Sprint(holes), func(t *testing.T) {
			b := newBed(t)
			b.publish(1, steps)
			b.enrichOnce(b.config(), steps)
			b.publish(steps+1, 2*steps)
			want := uint64(2 * steps)
			for _, seq := range holes {
				if b.deleteMsg("ORDERS", seq); seq > steps {
					want--
				}
			}
			b.start(b.config())
			b.await(want)
			if n := b.count("READY"); n != want {
				t.Errorf("%d events in the target, want %d", n, want)
			}
		})
	}
}

// A recreated source does not fit, though the event that was enriched last is
// gone there too, and the events after it are younger.
func TestOtherSourceWithAHole(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, steps)
	b.enrichOnce(b.config(), steps)
	b.recreate(ordersConfig)
	b.publish(1, 2*steps)
	b.deleteMsg("ORDERS", steps-1)
	b.deleteMsg("ORDERS", steps)
	b.standsStill(b.config(), "when enriched")
}

// around finds the last event before a hole, wherever the hole is.
func TestAround(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, 40)
	e := b.open(b.config())
	present := map[uint64]bool{}
	for seq := uint64(1); seq <= 40; seq++ {
		if present[seq] = seq == 7 || seq == 8 || seq == 21 || seq == 35; !present[seq] {
			b.deleteMsg("ORDERS", seq)
		}
	}
	for seq := uint64(0); seq <= 41; seq++ {
		before, after, err := e.around(t.Context(), seq)
		var wantBefore, wantAfter uint64
		for s := uint64(40); s > 0; s-- {
			if present[s] && s <= seq && wantBefore == 0 {
				wantBefore = s
			}
			if present[s] && s >= seq {
				wantAfter = s
			}
		}
		if err != nil || before.Sequence != wantBefore || after.Sequence != wantAfter {
			t.Errorf("around %d: %d and %d, want %d and %d: %v", seq, before.Sequence, after.Sequence, wantBefore, wantAfter, err)
		}
	}
}

// Another enrichment of the source sends its dead letters to this target. They
// are not the events that this enrichment has planned at their sequences.
func TestDeadLettersOfAnotherEnrichment(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, 5)
	e, prepared := owner(b, b.config())
	other := e.stamper
	other.chain = "JSONS chain"
	if _, err := b.js.PublishMsg(t.Context(), other.makeDeadLetter("orders.dead", event{Sequence: 1, Time: prepared.plan.Time, Subject: "orders.raw.1"}, errUnstampable)); err != nil {
		t.Fatal(err)
	}
	e.record.Plans, e.record.Owner = []plan{prepared.plan}, ""
	if err := e.saveRecord(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.start(b.config())
	b.await(6)
	b.expectAll(5)
}

// Another installation enriches to the same target: its records are separate,
// and its messages from the same source prove nothing here.
func TestTwoInstallationsOneTarget(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, steps)
	second := b.config()
	second.Prefix = "ids2"
	if err := func() error { e, _ := owner(b, b.config()); e.record.Owner = ""; return e.saveRecord(t.Context()) }(); err != nil {
		t.Fatal(err)
	}
	e, prepared := owner(b, second)
	if err := e.publisher.publish(t.Context(), prepared.msgs, 0); err != nil {
		t.Fatal(err)
	}
	b.standsStill(b.config(), "only one may write")
}

// Source and record were restored to the same backup, the target was not. Its
// messages of lost events do not stand for the new events at their sequences.
func TestSourceAndRecordRestored(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, 10)
	b.enrichOnce(b.config(), 10)
	source, records := natstest.TakeSnapshot(t, b.conn, "ORDERS"), natstest.TakeSnapshot(t, b.conn, "KV_ids_enrich")
	b.publish(11, 20)
	b.enrichOnce(b.config(), 20)
	source.Restore(t, b.conn)
	records.Restore(t, b.conn)
	b.publish(11, 25)
	b.standsStill(b.config(), "when enriched")
	if err := Resume(t.Context(), b.config(), 9, false); !errors.Is(err, ErrConfig) {
		t.Errorf("resume after 9: %v, want ErrConfig", err)
	}
	if err := Resume(t.Context(), b.config(), 10, false); err != nil {
		t.Fatal(err)
	}
	b.start(b.config())
	b.await(35)
}

// The target was restored, and others have filled it up to its last sequence.
func TestTargetRestoredAndFilled(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, 10)
	b.enrichOnce(b.config(), 10)
	target := natstest.TakeSnapshot(t, b.conn, "READY")
	b.publish(11, 20)
	b.enrichOnce(b.config(), 20)
	target.Restore(t, b.conn)
	b.standsStill(b.config(), "ends at sequence")
	for range 12 {
		if _, err := b.js.Publish(t.Context(), "orders.dead", nil); err != nil {
			t.Fatal(err)
		}
	}
	b.standsStill(b.config(), "now another message")
	if err := Resume(t.Context(), b.config(), 10, false); err != nil {
		t.Fatal(err)
	}
	b.start(b.config())
	natstest.Eventually(t, "the lost events", func() bool { return b.count("READY") == 32 })
	b.expectAll(20)
}

// Resume refuses whatever the target disproves: on any subject, after any later
// writers, and whether or not the source still has the event. If the evidence
// may be gone, the error names that.
func TestResumeIsProven(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(b *bed, cfg *Config)
		lost   bool   // the record is lost
		after  uint64 // the least correct sequence
		want   error
	}{
		{"nothing", func(*bed, *Config) {}, false, 10, nil},
		{"no record", func(*bed, *Config) {}, true, 10, nil},
		{"another subject", func(_ *bed, cfg *Config) { cfg.To = "orders.v2.>" }, true, 10, nil},
		{"event gone", func(b *bed, _ *Config) { b.deleteMsg("ORDERS", 10) }, true, 10, nil},
		{"others wrote", func(b *bed, _ *Config) { b.event("orders.ready.x", "", nil); <-b.js.PublishAsyncComplete() }, true, 10, nil},
		{"consumed", func(b *bed, _ *Config) { purge(b, 0) }, false, 10, nil},
		{"consumed, no record", func(b *bed, _ *Config) { purge(b, 0) }, true, 0, ErrUnproven},
		{"last message gone", func(b *bed, _ *Config) { b.deleteMsg("READY", 10) }, true, 9, ErrUnproven},
		{"record unreadable", func(b *bed, _ *Config) { _, _ = b.records().PutString(b.Context(), "READY", "?") }, false, 10, nil},
		{"another source", func(b *bed, _ *Config) { b.recreate(ordersConfig); b.publish(1, 20) }, false, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			ready := readyConfig
			ready.Subjects = append([]string{"orders.v2.>"}, ready.Subjects...)
			b.stream(ready)
			b.publish(1, 10)
			b.enrichOnce(b.config(), 10)
			if c.lost {
				if err := b.records().Delete(t.Context(), "READY"); err != nil {
					t.Fatal(err)
				}
			}
			cfg := b.config()
			c.change(b, &cfg)
			if c.after > 0 {
				if err := Resume(t.Context(), cfg, c.after-1, true); !errors.Is(err, ErrConfig) || errors.Is(err, ErrUnproven) {
					t.Errorf("resume after %d: %v, want ErrConfig", c.after-1, err)
				}
			}
			if err := Resume(t.Context(), cfg, c.after, false); !errors.Is(err, c.want) {
				t.Errorf("resume after %d: %v, want %v", c.after, err, c.want)
			}
			if err := Resume(t.Context(), cfg, c.after, true); err != nil {
				t.Errorf("unproven: %v", err)
			}
		})
	}
}

// A message of this source without a chain is another enrichment's.
func TestMessageWithoutChain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, steps)
	b.enrichOnce(b.config(), steps)
	header := nats.Header{HeaderSource: {formatOrigin("ORDERS", steps+1)}, HeaderID: {"7"}}
	if _, err := b.js.PublishMsg(t.Context(), &nats.Msg{Subject: "orders.ready.1", Header: header}); err != nil {
		t.Fatal(err)
	}
	b.publish(steps+1, steps+1)
	b.standsStill(b.config(), "only one may write")
}

// The source was recreated: a dead letter about an event at the same sequence
// is another.
func TestDeadLetterOfANewSource(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ready := readyConfig
	ready.Subjects = []string{"orders.ready.>"}
	b.stream(ready)
	b.stream(jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"orders.dead"}})
	cfg := b.config()
	cfg.JSON = "id"
	for n := uint64(1); n <= 2; n++ {
		b.event("orders.raw.1", "no JSON", nil)
		<-b.js.PublishAsyncComplete()
		_, stop := b.start(cfg)
		natstest.Eventually(t, "the dead letter", func() bool { return b.count("DEAD") == n })
		stop()
		b.recreate(ordersConfig)
		if err := Resume(t.Context(), cfg, 0, false); err != nil {
			t.Fatal(err)
		}
	}
}

// A record without a chain, as no enricher writes it, could not distinguish its
// messages from others'.
func TestRecordWithoutChain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.put(enrichmentRecord{})
	if _, err := b.records().PutString(t.Context(), "READY", "{}"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), b.config()); !errors.Is(err, errUnreadable) {
		t.Error(err)
	}
}

// Of two enrichers that find no record, one begins it, also where a record was
// deleted by hand.
func TestOneBeginsTheRecord(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for range 2 {
		first, second := b.open(b.config()), b.open(b.config())
		for _, e := range []*Enricher{first, second} {
			if err := e.loadRecord(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := first.takeOver(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := second.takeOver(t.Context()); !errors.Is(err, errRecordMoved) {
			t.Errorf("the second: %v", err)
		}
		if err := b.records().Delete(t.Context(), "READY"); err != nil {
			t.Fatal(err)
		}
	}
}
