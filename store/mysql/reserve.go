package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// exactly finds the row of one tag: the first comparison by index, the second whatever
// the column's collation is.
const exactly = " biz_tag = ? AND CAST(biz_tag AS BINARY) = ?"

// Reserve implements [store.Store]. A malformed tag is ErrBadTag.
func (s *Store) Reserve(ctx context.Context, tag string, step int64) (store.Segment, error) {
	if err := leaf.CheckReserve(tag, step); err != nil {
		return store.Segment{}, err
	}
	var seg store.Segment
	err := s.with(ctx, func(ctx context.Context, conn *sql.Conn) error {
		if err := s.checkOnce(ctx, conn); err != nil {
			return err
		}
		var err error
		seg, err = s.reserve(ctx, conn, tag, step)
		return err
	})
	if err != nil {
		return store.Segment{}, s.tagError(tag, err)
	}
	return seg, nil
}

func (s *Store) reserve(ctx context.Context, conn *sql.Conn, tag string, step int64) (store.Segment, error) {
	result, err := conn.ExecContext(ctx,
		"UPDATE "+s.table+" SET max_id = LAST_INSERT_ID(max_id + ?) WHERE"+exactly+" AND max_id BETWEEN 1 AND ?",
		step, tag, tag, leaf.Highest(step))
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
		if maxID == 0 { // tried: any trigger on UPDATE has this effect
			return store.Segment{}, fmt.Errorf("%w: the server does not say what it raised max_id to; if the table has a trigger on UPDATE, drop it", store.ErrSetup)
		}
		return leaf.Reserved(maxID, step)
	case 0: // the insert ID is an old one
		return store.Segment{}, s.notRaised(ctx, conn, tag, step)
	default:
		return store.Segment{}, fmt.Errorf("%w: %d rows with this biz_tag, it has to be the primary key or a unique one", store.ErrCorrupt, raised)
	}
}

// notRaised finds out why no row was raised.
func (s *Store) notRaised(ctx context.Context, conn *sql.Conn, tag string, step int64) error {
	var maxID *string
	err := conn.QueryRowContext(ctx, "SELECT max_id FROM "+s.table+" WHERE"+exactly, tag, tag).Scan(&maxID)
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrNoTag
	}
	if err != nil {
		return err
	}
	return leaf.NotRaised(maxID, step)
}

// with calls f with a connection. Only getting one is tried again when it turns out to
// be broken, never what f sends over it.
func (s *Store) with(ctx context.Context, f func(context.Context, *sql.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, leaf.CallTimeout)
	defer cancel()
	conn, err := s.db.Conn(ctx)
	if err == nil {
		err = f(ctx, conn)
		_ = conn.Close() // gives it back
	}
	return s.explain(err)
}
