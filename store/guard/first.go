package guard

import (
	"context"
	"fmt"

	"github.com/idworker/idworker/store"
)

// ReserveFirst implements [store.Store], as Reserve does. The tag begins at its floor.
func (g *Guard) ReserveFirst(ctx context.Context, tag store.Tag, n int64) (store.Segment, error) {
	if err := g.checkHold(); err != nil {
		return store.Segment{}, fmt.Errorf("tag %s: %w", tag.Name, err)
	}
	before, latest := g.recall(tag.Name)
	tag.Next = max(tag.Next, before.floor)
	seg, err := g.Store.ReserveFirst(ctx, tag, n)
	if err != nil {
		return store.Segment{}, err
	}
	g.checkWrite(tag.Name, before, latest)
	if g.admit(tag.Name, seg) {
		return seg, nil
	}
	return g.Reserve(ctx, tag.Name, n)
}

// Known reports whether the register has an entry for a tag: it exists, or it existed and was removed.
// False means no more than that no entry was seen.
func (g *Guard) Known(tag string) bool {
	m, _ := g.recall(tag)
	return m.written > 0
}

// Counted reports whether all tags that the register has are known, and new ones as they come. Without
// a register they never are.
func (g *Guard) Counted() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counted
}

// Count counts the tags that match and were known, see [Guard.Known], those that were deleted by hand since
// among them. It goes through all of them. Those
// that appear after done was called with their number are told to Appeared; nothing is between the two.
func (g *Guard) Count(matches func(tag string) bool, done func(n int64)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var n int64
	for tag, m := range g.tags {
		if m.appeared && matches(tag) {
			n++
		}
	}
	done(n)
}
