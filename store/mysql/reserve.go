package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// whereTag finds the row of one tag: the first comparison uses the index, the second is
// exact whatever the column's collation is.
const whereTag = " biz_tag = ? AND CAST(biz_tag AS BINARY) = ?"

// Reserve implements [store.Store]. A malformed tag is ErrBadTag.
func (s *Store) Reserve(ctx context.Context, tag string, step int64) (store.Segment, error) {
	if err := leaf.CheckTagAndStep(tag, step); err != nil {
		return store.Segment{}, err
	}
	var seg store.Segment
	err := s.withConnection(ctx, func(ctx context.Context, conn *sql.Conn) error {
		if err := s.ensureChecked(ctx, conn); err != nil {
			return err
		}
		var err error
		seg, err = s.raiseMaxID(ctx, conn, tag, step)
		return err
	})
	if err != nil {
		return store.Segment{}, s.tagError(tag, err)
	}
	return seg, nil
}

func (s *Store) raiseMaxID(ctx context.Context, conn *sql.Conn, tag string, step int64) (store.Segment, error) {
	result, err := conn.ExecContext(ctx,
		"UPDATE "+s.table+" SET max_id = LAST_INSERT_ID(max_id + ?) WHERE"+whereTag+" AND max_id BETWEEN 1 AND ?",
		step, tag, tag, leaf.HighestMaxID(step))
	if isOutOfRange(err) {
		return store.Segment{}, fmt.Errorf("%w: the column max_id is too narrow for %d more IDs, it should be BIGINT: %w", store.ErrExhausted, step, err)
	}
	if err != nil {
		return store.Segment{}, err
	}
	raised, err := result.RowsAffected()
	if err != nil {
		return store.Segment{}, err
	}
	switch raised {
	case 1:
		maxID, err := result.LastInsertId()
		if err != nil {
			return store.Segment{}, err
		}
		if maxID == 0 { // tried out: any trigger on UPDATE has this effect
			return store.Segment{}, fmt.Errorf("%w: the server does not report the value to which it raised max_id; if the table has a trigger on UPDATE, drop it", store.ErrSetup)
		}
		return leaf.SegmentBelow(maxID, step)
	case 0: // the insert ID is that of an earlier statement
		return store.Segment{}, s.explainNotRaised(ctx, conn, tag, step)
	default:
		return store.Segment{}, leaf.ErrRows(raised)
	}
}

// explainNotRaised finds out why no row was raised.
func (s *Store) explainNotRaised(ctx context.Context, conn *sql.Conn, tag string, step int64) error {
	maxID, err := s.readMaxID(ctx, conn, tag)
	if err != nil {
		return err
	}
	return leaf.ExplainNotRaised(maxID, step)
}

// readMaxID returns the max_id of a tag, nil for NULL, or ErrNoTag.
func (s *Store) readMaxID(ctx context.Context, conn *sql.Conn, tag string) (maxID *string, err error) {
	err = conn.QueryRowContext(ctx, "SELECT max_id FROM "+s.table+" WHERE"+whereTag, tag, tag).Scan(&maxID)
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrNoTag
	}
	return maxID, err
}

// withConnection calls f with a connection. If a connection turns out to be broken before
// f is called, another one is tried. What f sends is never repeated.
func (s *Store) withConnection(ctx context.Context, f func(context.Context, *sql.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, leaf.CallTimeout)
	defer cancel()
	conn, err := s.db.Conn(ctx)
	if err == nil {
		err = f(ctx, conn)
		_ = conn.Close() // returns it to the pool
	}
	return s.explainError(err)
}
