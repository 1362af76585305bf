package enrich

import (
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
