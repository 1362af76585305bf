package enrich

import (
	"errors"
	"testing"
)

// A record is removed on request, but not while an enricher is running. A later
// enrichment needs a decision, as after a lost record.
func TestRetire(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, 5)
	_, stop := b.start(b.config())
	b.await(5)
	for want, streams := range map[error][2]string{ErrAtWork: {"ORDERS", "READY"}, ErrConfig: {"OTHER", "READY"}} {
		if _, err := Retire(t.Context(), b.js, "ids", streams[0], streams[1]); !errors.Is(err, want) {
			t.Errorf("retire %v: %v, want %v", streams, err, want)
		}
	}
	stop()
	if s, err := Retire(t.Context(), b.js, "ids", "ORDERS", "READY"); err != nil || s.Done != 5 {
		t.Errorf("retired at event %d, want 5: %v", s.Done, err)
	}
	if all, err := List(t.Context(), b.js, "ids"); err != nil || len(all) > 0 {
		t.Errorf("there are %v, want none: %v", all, err)
	}
	if _, err := Retire(t.Context(), b.js, "ids", "ORDERS", "READY"); !errors.Is(err, ErrConfig) {
		t.Errorf("retired again: %v, want ErrConfig", err)
	}
	b.standsStill(b.config(), "no enrichment record")
	b.resume(5)
	b.publish(6, 9)
	b.start(b.config())
	b.await(9)
	b.expectAll(9)
}
