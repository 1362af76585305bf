package postgres

import (
	"context"
	"fmt"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// CheckFirst finds out whether the table can take all rows that templates make: the user may insert rows, and
// no collation or type has one tag stand in the way of another. It inserts none. Errors as for Check.
func (s *Store) CheckFirst(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaf.CallTimeout)
	defer cancel()
	_, err := s.pool.Exec(ctx, "INSERT INTO "+s.table+" (biz_tag, max_id, step) SELECT biz_tag, max_id, step FROM "+s.table+" WHERE false")
	if err == nil {
		err = s.checkCollation(ctx)
	}
	return s.tableError(s.explainError(err))
}

// checkCollation asks the server whether it takes Order and order for one tag. Next to a column, a literal is
// compared as the column is.
func (s *Store) checkCollation(ctx context.Context) error {
	var distinct int
	err := s.pool.QueryRow(ctx, "SELECT count(DISTINCT biz_tag) FROM (SELECT biz_tag FROM "+s.table+
		" WHERE false UNION ALL SELECT 'Order' UNION ALL SELECT 'order') AS tags").Scan(&distinct)
	if err == nil && distinct != 2 {
		err = fmt.Errorf(`%w: %s; run: ALTER TABLE %s ALTER COLUMN biz_tag TYPE VARCHAR(128) COLLATE "C"`,
			store.ErrSetup, leaf.OneOfTwo, s.table)
	}
	return err
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
