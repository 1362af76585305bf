package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"math"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// Raise implements [store.Store]. A malformed tag is ErrBadTag, and a next that the column
// cannot hold is ErrSetup.
func (s *Store) Raise(ctx context.Context, tag string, next int64) error {
	if err := leaf.CheckTagAndNext(tag, next); err != nil {
		return err
	}
	return s.tagError(tag, s.withConnection(ctx, func(ctx context.Context, conn *sql.Conn) error {
		if err := s.ensureChecked(ctx, conn); err != nil {
			return err
		}
		return s.raiseTo(ctx, conn, tag, next)
	}))
}

func (s *Store) raiseTo(ctx context.Context, conn *sql.Conn, tag string, next int64) error {
	result, err := conn.ExecContext(ctx,
		"UPDATE "+s.table+" SET max_id = GREATEST(max_id, ?) WHERE"+whereTag+" AND max_id BETWEEN 1 AND ?",
		next, tag, tag, int64(math.MaxInt64))
	if isOutOfRange(err) {
		return leaf.TooNarrow(next, err)
	}
	if err != nil {
		return err
	}
	raised, err := result.RowsAffected() // not counting one that was high enough
	if err != nil || raised == 1 {
		return err
	}
	if raised > 1 {
		return leaf.ErrRows(raised)
	}
	maxID, err := s.readMaxID(ctx, conn, tag)
	if err != nil {
		return err
	}
	return leaf.ExplainNotRaisedTo(maxID, next)
}

// RemoveTag implements [store.Store]. A malformed tag is ErrBadTag. The row is deleted, and
// with it goes what the table knows about the tag. After a lost answer a second call may find
// that the first one removed the tag, and return ErrNoTag.
func (s *Store) RemoveTag(ctx context.Context, tag string) error {
	if err := leaf.CheckName(tag); err != nil {
		return err
	}
	return s.tagError(tag, s.withConnection(ctx, func(ctx context.Context, conn *sql.Conn) error {
		result, err := conn.ExecContext(ctx, "DELETE FROM "+s.table+" WHERE"+whereTag, tag, tag)
		if hasNumber(err, erTableAccessDenied) {
			return fmt.Errorf("%w: %w", errNoDelete, err)
		}
		if err != nil {
			return err
		}
		removed, err := result.RowsAffected()
		if err == nil && removed == 0 {
			err = store.ErrNoTag
		}
		return err
	}))
}
