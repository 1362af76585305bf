package enrich

import (
	"errors"
	"testing"

	"github.com/idworker/idworker/messages"
)

// A turn ends with an error when its preparer has ended, for any reason. An
// owner that kept saving its record would block the enrichment for ever.
func TestTurnEndsWithItsReader(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	e, err := Open(t.Context(), b.config())
	if err != nil {
		t.Fatal(err)
	}
	turn := &turn{Enricher: e}
	gone := errors.New("gone")
	if err := turn.planBatch(t.Context(), &batch{err: gone, ended: true}); !errors.Is(err, gone) {
		t.Errorf("error %v, want the reader's", err)
	}
	if err := turn.planBatch(t.Context(), &batch{err: messages.ErrUnavailable}); err != nil {
		t.Errorf("error %v because there are no IDs, want the turn to go on", err)
	}
}
