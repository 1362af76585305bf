package enrich

import (
	"context"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/proxy"
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
		first := b.hastyConfig()
		var link *proxy.Proxy
		first.Conn, link = longLink(b, 0)
		first.JetStream = b.jetStream(first.Conn)
		b.start(first)
		b.publish(1, 100)
		b.await(100)
		link.Hold()
		b.publish(101, 500)
		if killed {
			first.Conn.Close()
			link.Release()
		}
		b.start(b.hastyConfig())
		b.await(500)
		link.Release()
		b.publish(501, 600)
		b.await(600)
		b.expectAll(600)
	}
}
