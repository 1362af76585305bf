package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/idworker/idworker/store"
)

// ReserveFirst implements [store.Store], as Reserve does: the store proposes, the ledger disposes. That
// the ledger knows of no such tag is not read but is the condition of the write. If it knows of one,
// which was removed or which the store has forgotten, the range is burnt, and one reserved above.
func (s *Store) ReserveFirst(ctx context.Context, tag store.Tag, n int64) (store.Segment, error) {
	seg, err := s.reserveFirst(ctx, tag, n)
	if !errors.Is(err, errBelow) {
		return seg, err
	}
	if err := s.Store.Raise(ctx, tag.Name, s.latest(tag.Name).high); err != nil {
		return store.Segment{}, err
	}
	return s.Reserve(ctx, tag.Name, n)
}

func (s *Store) reserveFirst(ctx context.Context, tag store.Tag, n int64) (store.Segment, error) {
	done, err := s.turns.take(ctx, tag.Name)
	if err != nil {
		return store.Segment{}, fmt.Errorf("ledger, tag %s: %w", tag.Name, err)
	}
	defer done()
	tag.Next = max(tag.Next, s.latest(tag.Name).high)
	seg, err := s.Store.ReserveFirst(ctx, tag, n)
	if err != nil {
		return store.Segment{}, err
	}
	if err := s.record(ctx, tag.Name, seg, true); err != nil {
		s.figures.burnt.Add(1)
		return store.Segment{}, fmt.Errorf("ledger, tag %s: %w", tag.Name, err)
	}
	s.figures.granted.Add(1)
	return seg, nil
}
