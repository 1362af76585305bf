package enrich

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// The source was deleted, created again and filled in the middle of a turn, and the consumer
// was replaced by one that reads the new stream from where it was in the old one.
func TestSourceMadeAnewInTheTurn(t *testing.T) {
	b := newBed(t)
	b.publish(1, 10)
	e, err := Open(t.Context(), b.config())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.awaitTurn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.takeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.js.DeleteStream(t.Context(), "ORDERS"); err != nil {
		t.Fatal(err)
	}
	b.stream(jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.raw.>"}})
	b.publish(1, 20)
	r, err := newReader(t.Context(), e.source, ">", 10)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	p := e.newPreparer(r)
	defer p.close()
	if batch := <-p.out; !errors.Is(batch.err, errSource) {
		t.Errorf("error %v and %d events of the new stream, want errSource", batch.err, len(batch.msgs))
	}
}

// A source that ends before what was enriched has lost events: those that come now
// have sequences that count as done.
func TestSourceLostEvents(t *testing.T) {
	b := newBed(t)
	b.publish(1, 5)
	b.put(record{Done: 9})
	e, err := Open(t.Context(), b.config())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.awaitTurn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.takeOver(t.Context()); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("error %v, want ErrAmbiguous", err)
	}
}
