package enrich

import (
	"errors"
	"testing"
)

// Enrichers with different filters would pass over each other's events.
func TestOtherFilter(t *testing.T) {
	b := newBed(t)
	cfg := b.config()
	cfg.Filter, cfg.To = "orders.raw.1", "orders.ready.1"
	b.publish(1, 7)
	b.start(cfg)
	b.await(1)
	e, err := Open(t.Context(), b.config())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.wait(t.Context()); !errors.Is(err, ErrConfig) {
		t.Errorf("error %v of an enricher with another filter, want ErrConfig", err)
	}
}
