package postgres

import (
	"context"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// CheckInsert finds out whether the user may insert rows, which templates take. It inserts none. Errors as
// for Check.
func (s *Store) CheckInsert(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaf.CallTimeout)
	defer cancel()
	_, err := s.pool.Exec(ctx, "INSERT INTO "+s.table+" (biz_tag, max_id, step) SELECT biz_tag, max_id, step FROM "+s.table+" WHERE false")
	return s.tableError(s.explainError(err))
}

// ReserveFirst implements [store.Store]: one INSERT of a row that has handed out its first segment.
// The unique key on biz_tag has one of those who insert it succeed.
func (s *Store) ReserveFirst(ctx context.Context, tag store.Tag, n int64) (store.Segment, error) {
	seg, err := leaf.First(tag, n)
	if err != nil {
		return store.Segment{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, leaf.CallTimeout)
	defer cancel()
	if err = s.ensureChecked(ctx); err == nil {
		err = s.insert(ctx, store.Tag{Name: tag.Name, Step: tag.Step, Next: seg.End})
	}
	if err != nil {
		return store.Segment{}, s.tagError(tag.Name, s.explainError(err))
	}
	return seg, nil
}
