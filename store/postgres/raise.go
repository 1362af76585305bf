package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// Raise implements [store.Store]. A malformed tag is ErrBadTag, and a next that the column
// cannot hold is ErrSetup.
func (s *Store) Raise(ctx context.Context, tag string, next int64) error {
	if err := leaf.CheckTagAndNext(tag, next); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, leaf.CallTimeout)
	defer cancel()
	err := s.ensureChecked(ctx)
	if err == nil {
		err = s.raiseTo(ctx, tag, next)
	}
	return s.tagError(tag, s.explainError(err))
}

func (s *Store) raiseTo(ctx context.Context, tag string, next int64) error {
	rows, err := s.pool.Query(ctx,
		"UPDATE "+s.table+" SET max_id = GREATEST(max_id, $2::bigint) WHERE"+whereTag+" AND max_id >= 1 RETURNING max_id, "+syncCommit,
		tag, next)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (maxID int64, err error) {
		var setting *string
		err = row.Scan(&maxID, &setting)
		return maxID, err
	})
	switch {
	case isOutOfRange(err):
		return leaf.TooNarrow(next, err)
	case err != nil:
		return err
	case len(found) == 1:
		return nil
	case len(found) > 1:
		return leaf.ErrRows(int64(len(found)))
	}
	maxID, err := s.readMaxID(ctx, tag)
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
	ctx, cancel := context.WithTimeout(ctx, leaf.CallTimeout)
	defer cancel()
	removed, err := s.pool.Exec(ctx, "DELETE FROM "+s.table+" WHERE"+whereTag, tag)
	switch {
	case hasCode(err, insufficient):
		err = fmt.Errorf("%w: %w", errNoDelete, err)
	case err == nil && removed.RowsAffected() == 0:
		err = store.ErrNoTag
	}
	return s.tagError(tag, s.explainError(err))
}
