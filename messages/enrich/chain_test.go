package enrich

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Tests of the chain: an enricher dies at every point of a step at which that can matter,
// and another one takes over from there.

const steps = 30 // events of one batch in these tests

// crashed is an enricher that has prepared and planned a batch, as far as save, and
// whose record says that it is dead.
func crashed(b *bed, published bool) (e *Enricher, msgs []*nats.Msg) {
	b.Helper()
	ctx := b.Context()
	e, err := Open(ctx, b.config())
	if err != nil {
		b.Fatal(err)
	}
	if err := e.takeOver(ctx); err != nil {
		b.Fatal(err)
	}
	r, err := newReader(ctx, e.source, e.cfg.Filter, e.record.Done)
	if err != nil {
		b.Fatal(err)
	}
	defer r.close()
	var events []event
	for len(events) < steps {
		more, err := r.readBatch(ctx)
		if err != nil {
			b.Fatal(err)
		}
		events = append(events, more...)
	}
	batch := e.prepareBatch(ctx, events)
	if batch.err != nil {
		b.Fatal(batch.err)
	}
	e.record.Plan, e.record.Owner = batch.plan, ""
	if err := e.saveRecord(ctx); err != nil {
		b.Fatal(err)
	}
	if published {
		if _, err := publishBatch(ctx, b.conn, batch.msgs, e.record.Last); err != nil {
			b.Fatal(err)
		}
	}
	return e, batch.msgs
}

// An enricher that dies before it publishes, or after that but before anybody knows, leaves
// nothing that is done twice or not at all, however late the next one comes.
func TestPlanIsFinishedOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		published bool
	}{{"before publish", false}, {"after publish", true}} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			b.stream(jetstream.StreamConfig{Name: "READY", Subjects: []string{"orders.ready.>", "orders.dead"}, AllowAtomicPublish: true, Duplicates: 100 * time.Millisecond})
			b.publish(1, steps)
			crashed(b, c.published)
			time.Sleep(200 * time.Millisecond) // longer than the target remembers IDs
			used := b.ids.last.Load()
			b.publish(steps+1, 2*steps)
			b.start(b.config())
			b.await(2 * steps)
			b.expectAll(2 * steps)
			if extra := b.ids.last.Load() - used; extra != steps {
				t.Errorf("%d IDs for %d events, the planned ones have theirs", extra, steps)
			}
		})
	}
}

// A batch that arrived counts as arrived even if all of it is gone from the target.
func TestPlanOfConsumedEventsIsFinished(t *testing.T) {
	b := newBed(t)
	b.publish(1, steps)
	crashed(b, true)
	purge(b, 0)
	b.publish(steps+1, steps+1)
	b.start(b.config())
	b.await(steps + 1)
	if msgs := b.stored("READY", "orders.ready.>"); len(msgs) != 1 || string(msgs[0].Data()) != fmt.Sprint(steps+1) {
		t.Errorf("%d events after the purge, want the new one only", len(msgs))
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

// An enricher that was paused with its batch ready, and wakes up after others have gone on,
// is refused.
func TestLateWriterIsRefused(t *testing.T) {
	b := newBed(t)
	b.publish(1, steps)
	late, msgs := crashed(b, false)
	last := late.record.Last
	b.start(b.config())
	b.await(steps)
	if _, err := publishBatch(b.Context(), b.conn, msgs, last); !errors.Is(err, errTargetMoved) {
		t.Errorf("late batch: %v", err)
	}
	if err := late.saveRecord(b.Context()); !errors.Is(err, errRecordMoved) {
		t.Errorf("late plan: %v", err)
	}
	b.publish(steps+1, 2*steps)
	b.await(2 * steps)
	b.expectAll(2 * steps)
}

// Other writers' messages in the target are not mistaken for a batch that arrived.
func TestForeignMessagesInTarget(t *testing.T) {
	for _, published := range []bool{false, true} {
		t.Run(fmt.Sprintf("published=%v", published), func(t *testing.T) {
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

// If nothing can tell whether a batch arrived, the enricher does not guess.
func TestAmbiguousTarget(t *testing.T) {
	b := newBed(t)
	b.publish(1, steps)
	crashed(b, true)
	if _, err := b.js.Publish(b.Context(), "orders.dead", nil); err != nil {
		t.Fatal(err)
	}
	purge(b, 1)
	e, err := Open(b.Context(), b.config())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.record.load(b.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.takeOver(b.Context()); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("%v, want ErrAmbiguous", err)
	}
}

// An event that the source has dropped leaves the plan; the others keep their IDs.
func TestPlannedEventRemovedFromSource(t *testing.T) {
	b := newBed(t)
	b.publish(1, steps)
	crashed(b, false)
	source, err := b.js.Stream(b.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	if err := source.DeleteMsg(b.Context(), 5); err != nil {
		t.Fatal(err)
	}
	b.start(b.config())
	b.await(steps - 1)
	msgs := b.stored("READY", "orders.ready.>")
	for i, msg := range msgs {
		want := i + 1
		if want >= 5 {
			want++
		}
		if got := string(msg.Data()) + " " + msg.Headers().Get(HeaderID); got != fmt.Sprintf("%d %d", want, want) {
			t.Errorf("event and ID %s, want %d for both", got, want)
		}
	}
}

// After its record is lost, an enrichment goes on where the target ends.
func TestLostRecord(t *testing.T) {
	b := newBed(t)
	b.publish(1, steps)
	_, stop := b.start(b.config())
	b.await(steps)
	stop()
	if err := b.js.DeleteKeyValue(b.Context(), "ids_enrich"); err != nil {
		t.Fatal(err)
	}
	b.publish(steps+1, 2*steps)
	b.start(b.config())
	b.await(2 * steps)
	b.expectAll(2 * steps)
}
