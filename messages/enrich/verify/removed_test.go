package verify_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/messages/enrich/verify"
	"github.com/idworker/idworker/testing/natstest"
)

// drop leaves an event out of the target.
func (b *bed) drop(event int) {
	b.Helper()
	i := b.at(event)
	b.enriched = append(b.enriched[:i:i], b.enriched[i+1:]...)
}

func (b *bed) delete(stream string, sequences ...uint64) {
	b.Helper()
	s := b.open(stream)
	for _, seq := range sequences {
		if err := s.DeleteMsg(b.Context(), seq); err != nil {
			b.Fatal(err)
		}
	}
}

// purge removes the messages below a sequence.
func (b *bed) purge(stream string, below uint64) {
	b.Helper()
	if err := b.open(stream).Purge(b.Context(), jetstream.WithPurgeSequence(below)); err != nil {
		b.Fatal(err)
	}
}

// TestRemovedIsNotMissing: removed messages prove nothing. Events missing
// beyond their number are missing.
func TestRemovedIsNotMissing(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  func(b *bed) // publishing
		after   func(b *bed)
		events  uint64
		gone    uint64
		orphans uint64
		missing uint64
	}{
		{name: "target consumed", after: func(b *bed) { b.purge("READY", 11) }, events: 47, gone: 10},
		{name: "target consumed, event dropped behind", before: func(b *bed) { b.drop(33) }, after: func(b *bed) { b.purge("READY", 11) }, events: 46, gone: 10, missing: 1},
		{name: "single message removed", after: func(b *bed) { b.delete("READY", 8) }, events: 56, gone: 1},
		{name: "message removed beside a dropped event", before: func(b *bed) { b.drop(9) }, after: func(b *bed) { b.delete("READY", 8) }, events: 55, gone: 1, missing: 1},
		{name: "target consumed wholly", after: func(b *bed) { b.purge("READY", 58) }, gone: 57},
		{name: "end of the target removed", after: func(b *bed) { b.delete("READY", 56, 57) }, events: 55, gone: 2},
		{name: "source removed", after: func(b *bed) { b.purge("ORDERS", 11) }, events: 47, orphans: 10},
		{name: "events removed from the source", after: func(b *bed) { b.delete("ORDERS", 8, 9, 20, 60) }, events: 55, orphans: 2},
		{name: "dead letters removed", after: func(b *bed) { b.delete("DEAD", 1) }, events: 57, gone: 1},
		{name: "dead letter removed, events dropped", before: func(b *bed) { b.drop(33); b.drop(36) }, after: func(b *bed) { b.delete("DEAD", 2) }, events: 55, gone: 1, missing: 2},
		{name: "dead letters consumed, events dropped", before: func(b *bed) { b.drop(33); b.drop(34) }, after: func(b *bed) { b.purge("DEAD", 2) }, events: 55, gone: 1, missing: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, 60)
			b.stream(readyConfig(b))
			if c.before != nil {
				c.before(b)
			}
			b.fill()
			c.after(b)
			r := b.verify(b.config())
			if r.Events != c.events || r.Gone != c.gone || r.Orphans != c.orphans || r.Faults[verify.Missing] != c.missing || len(r.Faults) > int(min(c.missing, 1)) {
				t.Errorf("%+v, want %+v", r, c)
			}
		})
	}
}

// TestOrphans: an event whose original is gone may arrive once, after the
// earlier events, also where the target has lost some of these.
func TestOrphans(t *testing.T) {
	for _, c := range []struct {
		name         string
		before       func(b *bed)     // publishing
		source, lost []uint64         // removed from ORDERS and READY
		want         verify.FaultKind // empty: no faults
	}{
		{name: "in order", source: []uint64{38, 39}, lost: []uint64{36}},
		{name: "too early", source: []uint64{38, 39}, want: verify.Order, before: func(b *bed) {
			m := b.clone(39)
			b.drop(39)
			b.insert(18, m)
		}},
		{name: "too late", source: []uint64{38, 39}, want: verify.Order, before: func(b *bed) {
			m := b.clone(38)
			b.drop(38)
			b.insert(42, m)
		}},
		{name: "swapped behind a lost one", source: []uint64{38, 39}, lost: []uint64{36}, want: verify.Order, before: func(b *bed) {
			b.enriched[b.at(38)], b.enriched[b.at(39)] = b.enriched[b.at(39)], b.enriched[b.at(38)]
		}},
		{name: "doubled behind a lost one", source: []uint64{38}, lost: []uint64{36}, want: verify.Doubled, before: func(b *bed) {
			b.insert(39, with(b.clone(38), enrich.HeaderID, "9000"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, 60)
			b.stream(readyConfig(b))
			if c.before != nil {
				c.before(b)
			}
			b.fill()
			b.delete("ORDERS", c.source...)
			b.delete("READY", c.lost...)
			r := b.verify(b.config())
			if c.want == "" && len(r.Faults) > 0 || c.want != "" && (r.Faults[c.want] != 1 || len(r.Faults) != 1) {
				t.Errorf("%+v, want %q", r, c.want)
			}
		})
	}
}

// TestOneVerdict: events are dropped, late, doubled, forged or removed at
// random, and each gets one verdict. Without removals, exactly the dropped
// events are missing or waiting, and exactly the late events are out of order.
func TestOneVerdict(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			b := newBed(t, 60)
			b.retention = jetstream.LimitsPolicy
			b.stream(readyConfig(b))
			var dropped, late, doubled uint64
			for event := 1; event < b.events-1; event++ { // the last events stay
				if isDead(event) {
					continue
				}
				switch random.IntN(8) {
				case 0:
					b.drop(event)
					dropped++
				case 1:
					m := b.clone(event)
					b.drop(event)
					b.enriched = append(b.enriched, m)
					late++
				case 2:
					b.enriched = append(b.enriched, b.clone(event))
					doubled++
				case 3:
					b.insert(event, with(b.clone(59), enrich.HeaderChain, "READY forged 1"))
				}
			}
			b.fill()
			removed := seed%3 > 0
			if removed {
				for seq := range uint64(len(b.enriched)) {
					if random.IntN(10) == 0 {
						b.delete("READY", seq+1)
					}
				}
			}
			r := b.verify(b.config())
			if all := r.Events + r.Dead + r.Gone + r.Waiting + r.Faults[verify.Missing]; all != 60 {
				t.Errorf("%d verdicts for 60 events: %+v", all, r)
			}
			if !removed && (r.Faults[verify.Missing] != dropped || r.Faults[verify.Order] != late || r.Faults[verify.Doubled] != doubled || r.Gone > 0) {
				t.Errorf("%v and %d gone; want %d missing, %d out of order, %d doubled", r.Faults, r.Gone, dropped, late, doubled)
			}
			// An event that was late and then removed was not removed from its
			// place.
			if r.Faults[verify.Missing] > dropped+late || r.Faults[verify.SharedID] > 0 || r.Dead != 3 {
				t.Errorf("%+v; %d were dropped, %d late", r, dropped, late)
			}
		})
	}
}

// TestRemovedExplainsOne: a message removed from a target with dead letters
// explains one event, and no other nearby, missing or waiting. A dead letter
// removed there is before the batch of the next event, not beside it.
func TestRemovedExplainsOne(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  func(b *bed)
		remove  []uint64
		events  uint64
		gone    uint64
		missing uint64
		waiting uint64
	}{
		{name: "all there", events: 57},
		{name: "dead letter removed", remove: []uint64{1}, events: 57, gone: 1},
		{name: "the last event waits", before: func(b *bed) { b.enriched = b.enriched[:56] }, remove: []uint64{4}, events: 55, gone: 1, waiting: 1},
		{name: "the end is removed too", before: func(b *bed) { b.enriched = b.enriched[:56] }, remove: []uint64{4, 59}, events: 54, gone: 2, waiting: 1},
		{name: "an event between others is missing", before: func(b *bed) { b.drop(9) }, remove: []uint64{4}, events: 55, gone: 1, missing: 1},
		{name: "two removed, two missing", before: func(b *bed) { b.drop(9); b.drop(25) }, remove: []uint64{4, 13}, events: 53, gone: 2, missing: 2},
		{name: "dead letter removed, event missing", before: func(b *bed) { b.drop(25) }, remove: []uint64{2}, events: 56, gone: 1, missing: 1},
		{name: "several removed at once", remove: []uint64{4, 5, 6, 20, 21}, events: 52, gone: 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, 60)
			b.stream(jetstream.StreamConfig{Name: "READY", Subjects: []string{"orders.ready.>", "orders.dead"}})
			if c.before != nil {
				c.before(b)
			}
			b.publish(b.source...)
			b.publish(b.dead...)
			b.publish(b.enriched...)
			b.delete("READY", c.remove...)
			r := b.verify(b.config())
			if r.Events != c.events || r.Gone != c.gone || r.Faults[verify.Missing] != c.missing || r.Waiting != c.waiting {
				t.Errorf("%d events, %d gone, %d missing, %d waiting; want %+v", r.Events, r.Gone, r.Faults[verify.Missing], r.Waiting, c)
			}
		})
	}
}

// TestLateEventExplainsNothing: the explanation of an event that arrives late
// is free to explain another event.
func TestLateEventExplainsNothing(t *testing.T) {
	for _, inTarget := range []bool{true, false} {
		b := newBed(t, 60)
		late := b.clone(9)
		b.insert(25, late)
		b.drop(9)
		subjects := []string{"orders.ready.>", "orders.dead"}
		letters := "READY"
		if !inTarget {
			subjects, letters = subjects[:1], "DEAD"
			b.stream(jetstream.StreamConfig{Name: letters, Subjects: []string{"orders.dead"}})
		}
		b.stream(jetstream.StreamConfig{Name: "READY", Subjects: subjects})
		b.publish(b.source...)
		b.publish(b.dead...)
		b.publish(b.enriched...)
		b.delete(letters, 2) // of event 40
		if r := b.verify(b.config()); r.Events != 57 || r.Gone != 1 || r.Faults[verify.Order] != 1 || len(r.Faults) > 1 {
			t.Errorf("dead letters in the target %t: %+v, want event 9 to be out of order, and event 40 to be gone", inTarget, r)
		}
	}
}

// TestOlderThanTarget: events that are older than the target may have been in
// the stream that it replaced.
func TestOlderThanTarget(t *testing.T) {
	t.Parallel()
	b := newBed(t, 60)
	b.publish(b.source...)
	b.enriched = b.enriched[10:]
	b.source = nil
	b.fill()
	r := b.verify(b.config())
	if b.expectClean(r, 47); r.Gone != 10 {
		t.Errorf("%+v", r)
	}
}

// TestConsumedTargets: reading a stream that removes consumed messages removes
// none.
func TestConsumedTargets(t *testing.T) {
	for name, policy := range map[string]jetstream.RetentionPolicy{"work queue": jetstream.WorkQueuePolicy, "interest": jetstream.InterestPolicy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, 60)
			b.retention = policy
			c, err := b.stream(readyConfig(b)).CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "reader", AckPolicy: jetstream.AckExplicitPolicy})
			if err != nil {
				t.Fatal(err)
			}
			b.fill()
			messages, err := c.Fetch(10)
			if err != nil {
				t.Fatal(err)
			}
			for msg := range messages.Messages() {
				if err := msg.DoubleAck(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			r := b.verify(b.config())
			if b.expectClean(r, 47); r.Gone != 10 {
				t.Errorf("%+v", r)
			}
			info, err := b.open("READY").Info(t.Context())
			if err != nil || info.State.Msgs != 47 || info.State.Consumers != 1 {
				t.Errorf("%+v, %v: want 47 messages and 1 consumer", info, err)
			}
		})
	}
}

// TestWaiting: events that have not arrived yet are counted, or waited for.
func TestWaiting(t *testing.T) {
	t.Parallel()
	b := newBed(t, 60)
	late := b.enriched[40:]
	b.enriched = b.enriched[:40]
	b.fill()
	if r := b.verify(b.config()); r.Waiting != 17 || r.Through != 42 || r.Point != 60 {
		t.Errorf("%+v, want 17 events to be waiting behind 42", r)
	}
	cfg := b.config()
	cfg.Wait = 300 * time.Millisecond
	v, err := verify.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := v.Run(t.Context()); !errors.Is(err, verify.ErrWaiting) || r.Waiting != 17 {
		t.Errorf("%+v, %v; want 17 events to be waiting", r, err)
	}
	cfg.Wait = natstest.Patience
	if v, err = verify.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	var r *verify.Verification
	var running sync.WaitGroup
	running.Go(func() { r, err = v.Run(t.Context()) })
	natstest.Eventually(t, "all that has arrived to be verified", func() bool { passed, _ := v.Progress(); return passed == 42 })
	b.publish(late...)
	running.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if b.expectClean(r, 57); r.Waiting != 0 || r.Through != 60 {
		t.Errorf("%+v", r)
	}
}

// TestMissingAtTheEnd: an event stops waiting once an event behind the point
// has arrived.
func TestMissingAtTheEnd(t *testing.T) {
	t.Parallel()
	b := newBed(t, 60)
	b.stream(readyConfig(b))
	b.drop(59)
	b.fill()
	b.delete("DEAD", 3) // of event 60
	b.publish(&nats.Msg{Subject: "orders.raw.de.61", Data: []byte(`{}`)})
	cfg := b.config()
	cfg.Wait = natstest.Patience
	v, err := verify.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var r *verify.Verification
	var running sync.WaitGroup
	running.Go(func() { r, err = v.Run(t.Context()) })
	natstest.Eventually(t, "all that has arrived to be verified", func() bool { passed, _ := v.Progress(); return passed == 58 })
	b.publish(&nats.Msg{Subject: "orders.raw.de.62", Data: []byte(`{}`)})
	b.publish(&nats.Msg{Subject: "orders.ready.de.62", Data: []byte(`{"id":"62"}`), Header: nats.Header{enrich.HeaderSource: {"ORDERS 62"}, enrich.HeaderID: {"62"}}})
	running.Wait()
	if !errors.Is(err, verify.ErrFaults) || r.Faults[verify.Missing] == 0 || r.Waiting > 0 {
		t.Errorf("%+v, %v; want missing events, and none to be waiting", r, err)
	}
}

// TestEventsBehindThePoint are ignored.
func TestEventsBehindThePoint(t *testing.T) {
	t.Parallel()
	b := newBed(t, 60)
	b.enriched = b.enriched[:57]
	b.fill()
	// Enriched during the read: the source had no such event when the point was
	// fixed.
	b.publish(&nats.Msg{Subject: "orders.raw.de.61", Data: []byte(`{}`)})
	b.publish(&nats.Msg{Subject: "orders.ready.de.61", Data: []byte(`{"id":"61"}`), Header: nats.Header{enrich.HeaderSource: {"ORDERS 61"}, enrich.HeaderID: {"61"}}})
	if r := b.verify(b.config()); len(r.Faults) > 0 || r.Events != 58 {
		t.Errorf("%+v", r)
	}
	b.publish(&nats.Msg{Subject: "orders.ready.de.62", Data: []byte(`{"id":"62"}`), Header: nats.Header{enrich.HeaderSource: {"ORDERS 62"}, enrich.HeaderID: {"62"}}})
	if r := b.verify(b.config()); r.Faults[verify.Unknown] != 1 || r.Findings[0].Source != 62 || r.Findings[0].Target != 59 {
		t.Errorf("%+v, want event 62 to be unknown: the source went back", r)
	}
}

// TestOneSubjectForAll: if all events are on a single subject of the target,
// only the source determines their tags.
func TestOneSubjectForAll(t *testing.T) {
	t.Parallel()
	b := newBed(t, 60)
	b.replace(48, func(m *nats.Msg) { setID("4")(m); m.Data = []byte(`{"n":48,"id":"4"}`) })
	for _, m := range b.enriched {
		m.Subject = "orders.ready.all"
	}
	b.fill()
	cfg := b.config()
	cfg.Enrichment.To = "orders.ready.all"
	r := b.verify(cfg)
	if len(r.Findings) != 1 || r.Findings[0].Kind != verify.SharedID || r.Findings[0].Source != 48 {
		t.Errorf("%+v, want the ID of event 48 to be that of event 8", r.Findings)
	}
}

// TestReplaced: a target, or a stream of dead letters, that was recreated during
// the read proves nothing.
func TestReplaced(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"READY", "DEAD"} {
		t.Run(stream, func(t *testing.T) { replace(t, stream) })
	}
}

// replace recreates a stream while a verifier reads, which has to notice.
func replace(t *testing.T, stream string) {
	t.Parallel()
	b := newBed(t, 60)
	b.enriched = b.enriched[:40]
	b.fill()
	cfg := b.config()
	cfg.Wait = natstest.Patience
	v, err := verify.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := v.Run(t.Context())
		ended <- err
	}()
	natstest.Eventually(t, "it waits for the last events", func() bool {
		passed, _ := v.Progress()
		return passed == 42
	})
	if err := b.js.DeleteStream(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	b.fill()
	natstest.Eventually(t, "the verifier ends", func() bool {
		select {
		case err = <-ended:
			return true
		default:
			return false
		}
	})
	if !errors.Is(err, verify.ErrReplaced) && !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("%v", err)
	}
}

// TestBadSettings: they are refused before anything is read.
func TestBadSettings(t *testing.T) {
	b := newBed(t, 1)
	b.fill()
	for name, change := range map[string]func(*enrich.Config){
		"no source":    func(c *enrich.Config) { c.From = "NONE" },
		"no target":    func(c *enrich.Config) { c.To = "none.*.*" },
		"no letters":   func(c *enrich.Config) { c.DeadLetter = "none" },
		"bad filter":   func(c *enrich.Config) { c.Filter = "a..b" },
		"bad ID":       func(c *enrich.Config) { c.ID = "x" },
		"no such star": func(c *enrich.Config) { c.ID = "segment:a.{{wildcard(3)}}" },
	} {
		cfg := b.config()
		change(&cfg.Enrichment)
		if _, err := verify.Open(t.Context(), cfg); !errors.Is(err, enrich.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
