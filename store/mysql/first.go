package mysql

import (
	"context"
	"database/sql"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// CheckInsert finds out whether the user may insert rows, which templates take. It inserts none. Errors as
// for Check.
func (s *Store) CheckInsert(ctx context.Context) error {
	return s.tableError(s.withConnection(ctx, func(ctx context.Context, conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, "INSERT INTO "+s.table+" (biz_tag, max_id, step) SELECT biz_tag, max_id, step FROM "+s.table+" WHERE 1 = 0")
		return err
	}))
}

// ReserveFirst implements [store.Store]: one INSERT of a row that has handed out its first segment.
// The unique key on biz_tag has one of those who insert it succeed.
func (s *Store) ReserveFirst(ctx context.Context, tag store.Tag, n int64) (store.Segment, error) {
	seg, err := leaf.First(tag, n)
	if err != nil {
		return store.Segment{}, err
	}
	err = s.withConnection(ctx, func(ctx context.Context, conn *sql.Conn) error {
		if err := s.ensureChecked(ctx, conn); err != nil {
			return err
		}
		return s.insert(ctx, conn, store.Tag{Name: tag.Name, Step: tag.Step, Next: seg.End})
	})
	if err != nil {
		return store.Segment{}, s.tagError(tag.Name, err)
	}
	return seg, nil
}
