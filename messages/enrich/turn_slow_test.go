package enrich

import (
	"context"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
)

// slow gives IDs later than a turn is long.
type slow struct{ *counter }

func (s slow) NextN(ctx context.Context, tag string, n int64) ([]messages.Range, error) {
	select {
	case <-time.After(2 * hasty.turnLength):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.counter.NextN(ctx, tag, n)
}

// Enrichers do not pass the turn back and forth when a batch takes longer than a turn.
func TestTurnLastsForABatch(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	cfg := b.hastyConfig()
	cfg.IDs = slow{b.ids}
	b.start(cfg)
	b.start(cfg)
	b.publish(1, 500)
	b.await(500)
	b.expectAll(500)
}
