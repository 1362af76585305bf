package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// whereTag finds the row of one tag, which is $1: the first comparison uses the index,
// the second is exact whatever the column's collation is.
const whereTag = ` biz_tag = $1 AND biz_tag COLLATE "C" = $1`

// syncCommit makes the commit wait for the disk, if it would not otherwise. It applies to
// the statement's own transaction only.
const syncCommit = `CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END`

// Reserve implements [store.Store]. A malformed tag is ErrBadTag.
func (s *Store) Reserve(ctx context.Context, tag string, step int64) (store.Segment, error) {
	if err := leaf.CheckTagAndStep(tag, step); err != nil {
		return store.Segment{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, leaf.CallTimeout)
	defer cancel()
	if err := s.ensureChecked(ctx); err != nil {
		return store.Segment{}, s.tagError(tag, s.explainError(err))
	}
	seg, err := s.raiseMaxID(ctx, tag, step)
	if err != nil {
		return store.Segment{}, s.tagError(tag, s.explainError(err))
	}
	return seg, nil
}

func (s *Store) raiseMaxID(ctx context.Context, tag string, step int64) (store.Segment, error) {
	rows, err := s.pool.Query(ctx,
		"UPDATE "+s.table+" SET max_id = max_id + $2::bigint WHERE"+whereTag+" AND max_id BETWEEN 1 AND $3::bigint RETURNING max_id, "+syncCommit,
		tag, step, leaf.HighestMaxID(step))
	if err != nil {
		return store.Segment{}, err
	}
	// Reads the answer to its end, which comes after the commit.
	raised, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (maxID int64, err error) {
		var setting *string
		err = row.Scan(&maxID, &setting)
		return maxID, err
	})
	if isOutOfRange(err) {
		return store.Segment{}, fmt.Errorf("%w: the column max_id is too narrow for %d more IDs, it should be bigint: %w", store.ErrExhausted, step, err)
	}
	if err != nil {
		return store.Segment{}, err
	}
	switch len(raised) {
	case 1:
		return leaf.SegmentBelow(raised[0], step)
	case 0:
		return store.Segment{}, s.explainNotRaised(ctx, tag, step)
	default:
		return store.Segment{}, leaf.ErrRows(int64(len(raised)))
	}
}

// explainNotRaised finds out why no row was raised.
func (s *Store) explainNotRaised(ctx context.Context, tag string, step int64) error {
	maxID, err := s.readMaxID(ctx, tag)
	if err != nil {
		return err
	}
	return leaf.ExplainNotRaised(maxID, step)
}

// readMaxID returns the max_id of a tag, nil for NULL, or ErrNoTag.
func (s *Store) readMaxID(ctx context.Context, tag string) (maxID *string, err error) {
	err = s.pool.QueryRow(ctx, "SELECT max_id::text FROM "+s.table+" WHERE"+whereTag, tag).Scan(&maxID)
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrNoTag
	}
	return maxID, err
}
