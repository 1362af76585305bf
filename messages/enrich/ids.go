package enrich

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/idworker/idworker/messages"
)

// tagsAtOnce is the number of tags for which IDs are requested concurrently.
const tagsAtOnce = 64

// idPool is the IDs of a tag, or the reason why there are none.
type idPool struct {
	ranges []messages.Range
	err    error // wraps errUnstampable if there will never be any
}

// nextID takes an ID out of the pool.
func (p *idPool) nextID() (int64, error) {
	if len(p.ranges) == 0 {
		return 0, cmp.Or(p.err, errNoIDs) // fewer IDs than requested, without an error
	}
	first := &p.ranges[0]
	id := first.First
	if id == first.Last { // which may be 2^63-1
		p.ranges = p.ranges[1:]
	} else {
		first.First++
	}
	return id, nil
}

func (p *idPool) size() (n int64) {
	for _, r := range p.ranges {
		n += r.Last - r.First + 1
	}
	return n
}

// fillPools requests the wanted number of IDs of each tag, for all tags at
// once. A tag's leftover IDs, from a try in which another tag failed, are used
// first.
func (e *Enricher) fillPools(ctx context.Context, pools map[string]*idPool, wants map[string]int64) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.timers.idsTimeout)
	defer cancel()
	var fillers errgroup.Group
	fillers.SetLimit(tagsAtOnce)
	for tag, n := range wants {
		if pools[tag] == nil {
			pools[tag] = new(idPool)
		}
		pool := pools[tag]
		fillers.Go(func() error {
			e.fillPool(ctx, pool, tag, n)
			return nil
		})
	}
	_ = fillers.Wait() // failures are in the pools
}

func (e *Enricher) fillPool(ctx context.Context, p *idPool, tag string, n int64) {
	p.err = nil
	if e.ids.isSnowflake() {
		tag = "snowflake"
	} else if err := messages.CheckTag(tag); err != nil {
		p.err = unstampable("%v", err)
		return
	}
	ranges, err := e.ids.fetchIDs(ctx, e.cfg.IDs, tag, n-p.size())
	p.ranges = append(p.ranges, ranges...)
	switch {
	case err == nil:
	case e.ids.dependsOnEvent() && (errors.Is(err, messages.ErrNoTag) || errors.Is(err, messages.ErrExhausted)):
		p.err = unstampable("tag %s: %v", tag, err)
	default:
		p.err = fmt.Errorf("%w of %s: %w", errNoIDs, tag, err)
	}
}

// errNoIDs means that an event has to wait for its ID.
var errNoIDs = errors.New("no IDs")

// fetchIDs requests n IDs, in smaller batches if the workers do not issue that
// many at once. If that fails it returns the IDs received so far.
func (k idKind) fetchIDs(ctx context.Context, ids IDs, tag string, n int64) (ranges []messages.Range, err error) {
	for batch := n; n > 0; {
		got, err := k.requestIDs(ctx, ids, tag, min(batch, n))
		if errors.Is(err, messages.ErrMalformed) && batch > 1 {
			batch /= 2
			continue
		}
		if err != nil {
			return ranges, err
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
