package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// CheckFirst finds out whether the table can take all rows that templates make: the user may insert rows, and
// no collation has one tag stand in the way of another. It inserts none. Errors as for Check.
func (s *Store) CheckFirst(ctx context.Context) error {
	return s.tableError(s.withConnection(ctx, func(ctx context.Context, conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, "INSERT INTO "+s.table+" (biz_tag, max_id, step) SELECT biz_tag, max_id, step FROM "+s.table+" WHERE 1 = 0")
		if err != nil {
			return err
		}
		return s.checkCollation(ctx, conn)
	}))
}

// checkCollation asks the server whether it takes Order and order for one tag, as it does with Leaf's own
// table under most defaults. Next to a column, a literal is compared as the column is.
func (s *Store) checkCollation(ctx context.Context, conn *sql.Conn) error {
	var distinct int
	err := conn.QueryRowContext(ctx, "SELECT COUNT(DISTINCT biz_tag) FROM (SELECT biz_tag FROM "+s.table+
		" WHERE 1 = 0 UNION ALL SELECT 'Order' UNION ALL SELECT 'order') AS tags").Scan(&distinct)
	if err == nil && distinct != 2 {
		err = fmt.Errorf("%w: %s; run: ALTER TABLE %s MODIFY biz_tag VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''",
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
