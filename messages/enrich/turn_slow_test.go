package enrich

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
)

// slow issues IDs later than a turn is long.
type slow struct{ *counter }

func (s slow) NextN(ctx context.Context, tag string, n int64) ([]messages.Range, error) {
	select {
	case <-time.After(2 * hasty.turnLength):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.counter.NextN(ctx, tag, n)
}

// Enrichers do not pass the turn back and forth when a batch takes longer than
// a turn.
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

// A killed owner is still named in the record; a paused owner continues later,
// with its batch in flight. Another enricher takes over after ownerTimeout, and
// events still arrive once and in order.
func TestOwnerIsSilent(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{true, false} {
		b := newBed(t)
		var gate sync.RWMutex
		first := b.hastyConfig()
		first.Conn = gatedLink(b, 0, &gate)
		first.JetStream = b.jetStream(first.Conn)
		resume := sync.OnceFunc(gate.Unlock)
		b.start(first)
		b.publish(1, 100)
		b.await(100)
		gate.Lock()
		t.Cleanup(resume)
		b.publish(101, 500)
		if killed {
			first.Conn.Close()
			resume()
		}
		b.start(b.hastyConfig())
		b.await(500)
		resume()
		b.publish(501, 600)
		b.await(600)
		b.expectAll(600)
	}
}
