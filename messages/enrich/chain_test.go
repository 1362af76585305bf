package enrich

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/testing/natstest"
)

// Tests of the chain: an enricher dies at every critical point of a step, and
// another takes over from there.

const steps = 30 // events of a batch in these tests

// owner returns an enricher that has the turn and has prepared all events as a
// single batch.
func owner(b *bed, cfg Config) (e *Enricher, prepared batch) {
	b.Helper()
	e = b.open(cfg)
	if err := e.loadRecord(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := e.takeOver(b.Context()); err != nil {
		b.Fatal(err)
	}
	p := &preparer{Enricher: e, tail: b.tail(e), last: e.record.Done, pools: make(map[string]*idPool)}
	defer p.tail.Close()
	var events []event
	for uint64(len(events)) < b.count("ORDERS") {
		more, _, err := p.readBatch(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		events = append(events, more...)
	}
	prepared, n, err := p.prepare(b.Context(), events)
	if err != nil || n != len(events) {
		b.Fatalf("%d of %d events prepared: %v", n, len(events), err)
	}
	return e, prepared
}

// tail reads behind the record of an enricher.
func (b *bed) tail(e *Enricher) *streamread.Tail {
	b.Helper()
	tail, err := streamread.OpenTail(b.Context(), e.cfg.JetStream, e.source, e.cfg.Filter, e.record.Done+1)
	if err != nil {
		b.Fatal(err)
	}
	return tail
}

// crashed returns an enricher that has planned a batch, and published only its
// first messages, and whose record shows it as dead.
func crashed(b *bed, published int) (e *Enricher, msgs []*nats.Msg) {
	b.Helper()
	e, prepared := owner(b, b.config())
	e.record.Plans, e.record.Owner = []plan{prepared.plan}, ""
	if err := e.saveRecord(b.Context()); err != nil {
		b.Fatal(err)
	}
	if published > 0 {
		if err := e.publisher.publish(b.Context(), prepared.msgs[:published], e.record.Last); err != nil {
			b.Fatal(err)
		}
	}
	return e, prepared.msgs
}

// An enricher that dies before, during or after publishing leaves nothing that
// is done twice or not at all, even if the next owner comes late, and although
// the target keeps no message IDs.
func TestPlanIsFinishedOnce(t *testing.T) {
	t.Parallel()
	for _, published := range []int{0, 1, steps / 2, steps} {
		for _, consumed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d of %d published, consumed %v", published, steps, consumed), func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				b.publish(1, steps)
				crashed(b, published)
				arrived := b.stored("READY", "orders.ready.>")
				if consumed {
					purge(b, 0)
				}
				b.publish(steps+1, 2*steps)
				if consumed && published > 0 { // by whomever: a missing message proves nothing
					b.standsStill(b.config(), "is gone")
					if err := Resume(t.Context(), b.config(), uint64(published), true); err != nil {
						t.Fatal(err)
					}
				}
				b.start(b.config())
				b.await(2 * steps)
				if !consumed {
					arrived = nil
				}
				b.expect(append(arrived, b.stored("READY", "orders.ready.>")...), 2*steps)
			})
		}
	}
}

func purge(b *bed, keep uint64) {
	b.Helper()
	s, err := b.js.Stream(b.Context(), "READY")
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Purge(b.Context(), jetstream.WithPurgeKeep(keep)); err != nil {
		b.Fatal(err)
	}
}

// An enricher that was paused with its batch ready, and wakes up after others
// have continued, is refused. A single event is no batch, which the server
// would stage on disk.
func TestLateWriterIsRefused(t *testing.T) {
	t.Parallel()
	for kind, n := range map[string]int{"atomic": steps, "fast": steps, "alone": 1} {
		b := newBed(t)
		target := readyConfig
		target.AllowBatchPublish = kind == "fast"
		b.stream(target)
		b.publish(1, n)
		late, msgs := crashed(b, 0)
		last := late.record.Last
		sent, err := b.conn.SubscribeSync("orders.ready.>")
		if err != nil {
			t.Fatal(err)
		}
		b.start(b.config())
		b.await(uint64(n))
		msg, err := sent.NextMsgWithContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if atomic, fast := msg.Header.Get(headerBatchID) != "", strings.HasSuffix(msg.Reply, ".$FI"); atomic != (kind == "atomic") || fast != (kind == "fast") {
			t.Errorf("%s: sent as an atomic batch %v, as a fast one %v", kind, atomic, fast)
		}
		ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
		defer cancel()
		if err := late.publisher.publish(ctx, msgs, last); !errors.Is(err, errTargetMoved) {
			t.Errorf("%s: late batch: %v", kind, err)
		}
		if err := late.saveRecord(b.Context()); !errors.Is(err, errRecordMoved) {
			t.Errorf("%s: late plan: %v", kind, err)
		}
		b.publish(n+1, 2*n)
		b.await(uint64(2 * n))
		b.expectAll(2 * n)
	}
}

// Another publisher's message in the middle of a fast batch ends it: nothing is
// stored after a gap.
func TestForeignMessageInFastBatch(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	target := readyConfig
	target.AllowBatchPublish = true
	b.stream(target)
	b.publish(1, steps)
	e, prepared := owner(b, b.config())
	inbox := b.conn.NewInbox()
	for i, msg := range prepared.msgs {
		if i == 5 {
			if err := b.conn.Publish("orders.dead", nil); err != nil {
				t.Fatal(err)
			}
		}
		prepareFast(msg, inbox, "batch", i, steps, e.record.Last)
		if err := b.conn.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Eventually(t, "the other message", func() bool { return b.count("READY") >= 6 })
	e.record.Plans, e.record.Owner = []plan{prepared.plan}, ""
	if err := e.saveRecord(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.start(b.config())
	b.await(steps + 1)
	b.expectAll(steps)
}

// The end of a fast batch, of an enricher that was paused in the middle,
// arrives after another enricher has published the same events: each message
// has its own condition.
func TestEndOfFastBatchIsLate(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	target := readyConfig
	target.AllowBatchPublish = true
	b.stream(target)
	b.publish(1, steps)
	e, prepared := owner(b, b.config())
	e.record.Plans, e.record.Owner = []plan{prepared.plan}, ""
	if err := e.saveRecord(t.Context()); err != nil {
		t.Fatal(err)
	}
	inbox := b.conn.NewInbox()
	send := func(from, to int) {
		for i := from; i < to; i++ {
			prepareFast(prepared.msgs[i], inbox, "batch", i, steps, 0)
			if err := b.conn.PublishMsg(prepared.msgs[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(0, 5)
	b.await(5)
	b.start(b.config())
	b.await(steps)
	send(5, steps)
	b.publish(steps+1, 2*steps)
	b.await(2 * steps)
	b.expectAll(2 * steps)
}

// Other publishers' messages in the target are not mistaken for a batch that
// arrived.
func TestForeignMessagesInTarget(t *testing.T) {
	t.Parallel()
	for _, published := range []int{0, steps / 2, steps} {
		t.Run(fmt.Sprintf("published=%d", published), func(t *testing.T) {
			b := newBed(t)
			b.publish(1, steps)
			crashed(b, published)
			for range steps { // as many as the plan has
				if _, err := b.js.Publish(b.Context(), "orders.dead", nil); err != nil {
					t.Fatal(err)
				}
			}
			b.publish(steps+1, 2*steps)
			b.start(b.config())
			b.await(3 * steps)
			b.expectAll(2 * steps)
		})
	}
}

// Without proof whether a batch arrived, the enricher does not guess.
func TestAmbiguousTarget(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, steps)
	crashed(b, steps)
	if _, err := b.js.Publish(b.Context(), "orders.dead", nil); err != nil {
		t.Fatal(err)
	}
	purge(b, 1)
	b.standsStill(b.config(), "is gone")
}

// An event that the source has dropped leaves the plan; the others keep their
// IDs.
func TestPlannedEventRemovedFromSource(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, steps)
	crashed(b, 0)
	source, err := b.js.Stream(b.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	if err := source.DeleteMsg(b.Context(), 5); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.WarnLevel)
	cfg := b.patientConfig()
	cfg.Log = zap.New(core)
	b.start(cfg)
	b.await(steps - 1)
	if logs.FilterMessage("planned batch changed; replanning").Len() != 1 {
		t.Errorf("the plan was not given up: %v", logs.All())
	}
	msgs := b.stored("READY", "orders.ready.>")
	for i, msg := range msgs {
		want := i + 1
		if want >= 5 {
			want++
		}
		if got := string(msg.Data()); got != fmt.Sprint(want) {
			t.Errorf("event %s, want %d", got, want)
		}
	}
}

// The owner of an abandoned plan, which was only paused, publishes its batch
// before the next owner does: the headers show which events it has.
func TestOldPlanArrivesLate(t *testing.T) {
	t.Parallel()
	for _, arrives := range []int{1, steps / 2, steps} {
		for _, replanned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d events, new plan saved %v", arrives, replanned), func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				b.publish(1, steps)
				late, msgs := crashed(b, 0)
				source, err := b.js.Stream(b.Context(), "ORDERS")
				if err != nil {
					t.Fatal(err)
				}
				if err := source.DeleteMsg(b.Context(), 3); err != nil {
					t.Fatal(err)
				}
				last := late.record.Last
				late.record.Plans, late.record.Doubt = nil, true // as the next owner does
				if err := late.saveRecord(b.Context()); err != nil {
					t.Fatal(err)
				}
				if replanned {
					_, prepared := owner(b, b.config())
					next := b.open(b.config())
					if err := next.readRecord(b.Context()); err != nil {
						t.Fatal(err)
					}
					next.record.Plans, next.record.Owner = []plan{prepared.plan}, ""
					if err := next.saveRecord(b.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if err := late.publisher.publish(b.Context(), msgs[:arrives], last); err != nil {
					t.Fatal(err)
				}
				b.start(b.config())
				want := uint64(steps)
				if arrives < 3 {
					want--
				}
				b.publish(steps+1, steps+1)
				b.await(want + 1)
				var got []string
				for _, msg := range b.stored("READY", "orders.ready.>") {
					got = append(got, string(msg.Data()))
				}
				var all []string
				for i := range steps + 1 {
					if i != 2 || arrives >= 3 {
						all = append(all, fmt.Sprint(i+1))
					}
				}
				if !slices.Equal(got, all) {
					t.Errorf("events %v, want %v", got, all)
				}
			})
		}
	}
}

// A late owner publishes from an abandoned plan, and its messages are removed
// as well: the new plan proves nothing about them.
func TestOldPlanArrivesLateAndIsConsumed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, steps)
	late, msgs := crashed(b, 0)
	late.record.Plans, late.record.Doubt = []plan{{Through: steps, Runs: []run{{2, steps - 1}}}}, true
	if err := late.saveRecord(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := late.publisher.publish(t.Context(), msgs[:7], late.record.Last); err != nil {
		t.Fatal(err)
	}
	purge(b, 0)
	b.standsStill(b.config(), "is gone")
}

// A plan whose events are dead letters is finished once its last letter is in
// the target. The letters of an abandoned plan prove nothing: the new plan may
// have other events at their sequences.
func TestLettersAtTheEndOfAPlan(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		doubt bool
		plan  plan     // saved
		there []uint64 // events whose letters are in the target
		want  []uint64 // all letters in the end
	}{
		"finished":  {false, plan{Through: 4, Runs: []run{{1, 4}}}, []uint64{1, 2, 3, 4}, []uint64{1, 2, 3, 4, 5}},
		"abandoned": {true, plan{Through: 4, Runs: []run{{2, 3}}}, []uint64{1, 2, 4}, []uint64{1, 2, 4, 2, 3, 4, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.publish(1, 4)
			cfg := b.config()
			cfg.JSON = "id" // no event is a JSON object
			late, prepared := owner(b, cfg)
			late.record.Plans, late.record.Owner, late.record.Doubt = []plan{c.plan}, "", c.doubt
			if err := late.saveRecord(b.Context()); err != nil {
				t.Fatal(err)
			}
			var msgs []*nats.Msg
			for _, seq := range c.there {
				msgs = append(msgs, prepared.msgs[seq-1])
			}
			if err := late.publisher.publish(b.Context(), msgs, late.record.Last); err != nil {
				t.Fatal(err)
			}
			b.publish(5, 5)
			b.start(cfg)
			b.await(uint64(len(c.want)))
			var got []uint64
			for _, msg := range b.stored("READY", "orders.dead") {
				got = append(got, parseOrigin(msg.Headers()).seq)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("letters of events %v, want %v", got, c.want)
			}
		})
	}
}

// After its record is lost, an enrichment stops, whether or not its target was
// consumed. An operator decides, except against the evidence of the target.
func TestLostRecord(t *testing.T) {
	t.Parallel()
	for _, consumed := range []bool{false, true} {
		b := newBed(t)
		b.publish(1, steps)
		_, stop := b.start(b.config())
		b.await(steps)
		stop()
		if err := b.js.DeleteKeyValue(b.Context(), "ids_enrich"); err != nil {
			t.Fatal(err)
		}
		arrived := b.stored("READY", "orders.ready.>")
		if consumed {
			purge(b, 0)
		}
		b.publish(steps+1, 2*steps)
		b.standsStill(b.config(), "no enrichment record")
		for _, after := range []uint64{5, 3 * steps} {
			if err := Resume(b.Context(), b.config(), after, false); !errors.Is(err, ErrConfig) {
				t.Errorf("resume after %d: %v, want ErrConfig", after, err)
			}
		}
		err := Resume(b.Context(), b.config(), steps, false)
		if consumed && errors.Is(err, ErrUnproven) {
			err = Resume(b.Context(), b.config(), steps, true)
		}
		if err != nil {
			t.Fatal(err)
		}
		b.start(b.config())
		b.await(2 * steps)
		if !consumed {
			arrived = nil
		}
		b.expect(append(arrived, b.stored("READY", "orders.ready.>")...), 2*steps)
	}
}
