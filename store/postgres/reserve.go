package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// exactly finds the row of one tag, which is $1: the first comparison by index, the
// second whatever the column's collation is.
const exactly = ` biz_tag = $1 AND biz_tag COLLATE "C" = $1`

// durable has the commit wait for the disk, if it otherwise would not. It holds for
// the statement's own transaction.
const durable = `CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END`

// Reserve implements [store.Store]. A malformed tag is ErrBadTag.
func (s *Store) Reserve(ctx context.Context, tag string, step int64) (store.Segment, error) {
	if err := leaf.CheckReserve(tag, step); err != nil {
		return store.Segment{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, leaf.CallTimeout)
	defer cancel()
	if err := s.checkOnce(ctx); err != nil {
		return store.Segment{}, s.tagError(tag, s.explain(err))
	}
	seg, err := s.reserve(ctx, tag, step)
	if err != nil {
		return store.Segment{}, s.tagError(tag, s.explain(err))
	}
	return seg, nil
}

func (s *Store) reserve(ctx context.Context, tag string, step int64) (store.Segment, error) {
	rows, err := s.pool.Query(ctx,
		"UPDATE "+s.table+" SET max_id = max_id + $2::bigint WHERE"+exactly+" AND max_id BETWEEN 1 AND $3::bigint RETURNING max_id, "+durable,
		tag, step, leaf.Highest(step))
	if err != nil {
		return store.Segment{}, err
	}
	// Reads to the end of the answer, behind the commit.
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
		return leaf.Reserved(raised[0], step)
	case 0:
		return store.Segment{}, s.notRaised(ctx, tag, step)
	default:
		return store.Segment{}, fmt.Errorf("%w: %d rows with this biz_tag, it has to be the primary key or a unique one", store.ErrCorrupt, len(raised))
	}
}

// notRaised finds out why no row was raised.
func (s *Store) notRaised(ctx context.Context, tag string, step int64) error {
	var maxID *string
	err := s.pool.QueryRow(ctx, "SELECT max_id::text FROM "+s.table+" WHERE"+exactly, tag).Scan(&maxID)
	if errors.Is(err, pgx.ErrNoRows) {
		return store.ErrNoTag
	}
	if err != nil {
		return err
	}
	return leaf.NotRaised(maxID, step)
}
