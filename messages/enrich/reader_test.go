package enrich

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Reading ends when told to, even while the consumer is away.
func TestReaderCloses(t *testing.T) {
	b := newBed(t)
	for range 30 {
		source, err := b.js.Stream(t.Context(), "ORDERS")
		if err != nil {
			t.Fatal(err)
		}
		r, err := newReader(t.Context(), b.js, source, ">", 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := source.DeleteConsumer(t.Context(), r.consumer); err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		go func() { r.close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(20 * time.Second):
			t.Fatal("the reader does not close")
		}
	}
}

// A consumer that does not deliver what the stream has is noticed.
func TestConsumerDeliversNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	source, err := b.js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	r, err := newReader(t.Context(), b.js, source, ">", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	r.open = maxBatch // so nothing is asked for
	b.publish(1, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := r.readBatch(ctx); !errors.Is(err, errSource) {
		t.Errorf("error %v, want errSource", err)
	}
}
