package enrich

import (
	"context"
	"errors"
	"time"

	"github.com/idworker/idworker/messages"
)

// idPool is the IDs of one tag for one batch, or the reason why there never will be any.
type idPool struct {
	ranges  []messages.Range
	refused error
}

// nextID takes an ID out of the pool, which has as many as were asked for.
func (p *idPool) nextID() (int64, error) {
	if p.refused != nil {
		return 0, p.refused
	}
	first := &p.ranges[0]
	id := first.First
	if id == first.Last {
		p.ranges = p.ranges[1:]
	} else {
		first.First++
	}
	return id, nil
}

// idsTimeout is how long a request for IDs may take before the log says that there are
// none.
const idsTimeout = 2 * time.Second

// fetchPool gets n IDs of a tag.
func (e *Enricher) fetchPool(ctx context.Context, tag string, n int64) (*idPool, error) {
	if err := messages.CheckTag(tag); !e.ids.isSnowflake() && err != nil {
		return &idPool{refused: unstampable("%v", err)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, idsTimeout)
	defer cancel()
	ranges, err := e.ids.fetchIDs(ctx, e.cfg.IDs, tag, n)
	if e.ids.dependsOnEvent() && errors.Is(err, messages.ErrNoTag) {
		return &idPool{refused: unstampable("tag %s: %v", tag, err)}, nil
	}
	return &idPool{ranges: ranges}, err
}

// fetchIDs gets n IDs, in smaller batches if the workers do not give that many at once.
func (k idKind) fetchIDs(ctx context.Context, ids IDs, tag string, n int64) ([]messages.Range, error) {
	var ranges []messages.Range
	for batch := n; n > 0; {
		got, err := k.requestIDs(ctx, ids, tag, min(batch, n))
		if errors.Is(err, messages.ErrMalformed) && batch > 1 {
			batch /= 2
			continue
		}
		if err != nil {
			return nil, err
		}
		n -= min(batch, n)
		ranges = append(ranges, got...)
	}
	return ranges, nil
}

func (k idKind) requestIDs(ctx context.Context, ids IDs, tag string, n int64) ([]messages.Range, error) {
	if k.isSnowflake() {
		return ids.SnowflakeN(ctx, n)
	}
	return ids.NextN(ctx, tag, n)
}
