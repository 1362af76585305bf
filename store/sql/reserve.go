package sql

import (
	"cmp"
	"context"
	dbsql "database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/idworker/idworker/store"
)

// raise is the statement that reserves.
const raise = "UPDATE {table} SET max_id = {raised} WHERE {tag} AND max_id BETWEEN 1 AND {int}"

// Reserve implements [store.Table]. The first call checks the table as Check
// does.
func (t *LeafTable) Reserve(ctx context.Context, tag string, n int64) (seg store.Segment, err error) {
	err = t.callChecked(ctx, store.Tag{Name: tag, Step: n, Next: 1}, func(ctx context.Context, conn *dbsql.Conn) error {
		seg, err = t.reserve(ctx, conn, tag, n)
		return err
	})
	return seg, err
}

// ReserveRest implements [store.Table]. A CHECK may end the numbers before the
// column's type does, so it tries smaller and smaller ranges.
func (t *LeafTable) ReserveRest(ctx context.Context, tag string, most int64) (seg store.Segment, err error) {
	err = t.callChecked(ctx, store.Tag{Name: tag, Step: most, Next: 1}, func(ctx context.Context, conn *dbsql.Conn) error {
		end, err := t.columns(ctx, conn)
		if err != nil {
			return err
		}
		next, err := t.next(ctx, conn, tag)
		if err != nil {
			return err
		}
		err = fmt.Errorf("%w: max_id is %d", store.ErrExhausted, next)
		for n := min(most, end-next); n > 0 && errors.Is(err, store.ErrExhausted); n /= 2 {
			seg, err = t.reserve(ctx, conn, tag, n)
		}
		return err
	})
	return seg, err
}

// reserve raises a row by n. It is ErrExhausted if that does not fit the column,
// or violates a constraint, which in practice is an upper bound: the server
// answers, and only this row ends, so callers are refused for good instead of
// told to retry. No numbers are discarded by attempts that are bound to fail:
// after the server reported no number, the next call checks the table, and a tag
// with several rows is read first.
func (t *LeafTable) reserve(ctx context.Context, conn *dbsql.Conn, tag string, n int64) (seg store.Segment, err error) {
	if _, doubled := t.doubled.Load(tag); doubled {
		if _, err := t.find(ctx, conn, tag); err != nil {
			return seg, err
		}
		t.doubled.Delete(tag)
	}
	rows, maxID, err := t.change(ctx, conn, t.text(raise), n, tag, tag, store.Left(n))
	switch {
	case t.is(err, errNoFit), t.is(err, errCheck):
		return seg, fmt.Errorf("%w: column max_id has no room for %d more IDs, must be BIGINT without bounds: %w", store.ErrExhausted, n, explained(err))
	case err != nil:
		return seg, err
	case rows == 0: // max_id may come from an earlier statement
		next, err := t.next(ctx, conn, tag)
		if err == nil {
			_, err = store.Following(next, n)
		}
		if err == nil { // it fits, by now or because the UPDATE skipped it
			_, err = t.tryRow(ctx, t, conn, tag)
		}
		return seg, cmp.Or(err, errSkipped)
	case rows > 1:
		t.doubled.Store(tag, true)
		return seg, errRows(rows)
	case maxID == 0:
		t.checked.Store(false)
		return seg, errTrigger
	case maxID <= n:
		return seg, fmt.Errorf("%w: max_id is %d after a raise by %d", store.ErrCorrupt, maxID, n)
	}
	return store.Segment{First: maxID - n, End: maxID}, nil
}

// next returns the max_id of a row that a statement did not raise. Errors:
// ErrNoTag, ErrCorrupt.
func (t *LeafTable) next(ctx context.Context, conn *dbsql.Conn, tag string) (int64, error) {
	found, err := t.find(ctx, conn, tag)
	if err != nil {
		return 0, err
	}
	next, err := parseNumber("max_id", found.maxID)
	if err == nil && next < 1 {
		err = fmt.Errorf("%w: max_id is %d, allowed is 1 or more", store.ErrCorrupt, next)
	}
	return next, err
}

// Find implements [store.Table]. The row is returned unchecked, in bounds or
// not. A row with NULL, or with a number that does not fit an int64, is
// ErrCorrupt, and so are two rows.
func (t *LeafTable) Find(ctx context.Context, tag string) (found store.Tag, err error) {
	err = t.callTag(ctx, store.Tag{Name: tag, Step: 1, Next: 1}, func(ctx context.Context, conn *dbsql.Conn) error {
		r, err := t.find(ctx, conn, tag)
		if err == nil {
			found, err = r.parse()
		}
		return err
	})
	return found, err
}

// find returns the row of a tag. Errors: ErrNoTag, and ErrCorrupt for two rows.
func (t *LeafTable) find(ctx context.Context, conn *dbsql.Conn, tag string) (found row, err error) {
	rows := int64(0)
	err = t.each(ctx, conn, func(r row) { found, rows = r, rows+1 }, " WHERE {tag}", tag, tag)
	if err == nil && rows == 0 {
		err = store.ErrNoTag
	}
	if err == nil && rows > 1 {
		err = errRows(rows)
	}
	return found, err
}

// errRows is the error for a tag in several rows.
func errRows(rows int64) error {
	return fmt.Errorf("%w: %d rows have this biz_tag; it needs a unique key", store.ErrCorrupt, rows)
}

// row holds the columns of a row as text; nil is NULL.
type row struct{ bizTag, maxID, step *string }

// each calls see with each row.
func (t *LeafTable) each(ctx context.Context, conn *dbsql.Conn, see func(row), where string, args ...any) error {
	rows, err := conn.QueryContext(ctx, t.text("SELECT {text}, max_id, step FROM {table}"+where), args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.bizTag, &r.maxID, &r.step); err != nil {
			return err
		}
		see(r)
	}
	return rows.Err()
}

// parse returns the row as a tag, in bounds or not, or ErrCorrupt.
func (r row) parse() (store.Tag, error) {
	if r.bizTag == nil {
		return store.Tag{}, fmt.Errorf("%w: biz_tag is NULL", store.ErrCorrupt)
	}
	next, errNext := parseNumber("max_id", r.maxID)
	step, errStep := parseNumber("step", r.step)
	if err := cmp.Or(errNext, errStep); err != nil {
		return store.Tag{}, err
	}
	return store.Tag{Name: *r.bizTag, Step: step, Next: next}, nil
}

// parseNumber reads a column that may be NULL, or unsigned and beyond 2^63.
func parseNumber(column string, value *string) (int64, error) {
	if value == nil {
		return 0, fmt.Errorf("%w: %s is NULL", store.ErrCorrupt, column)
	}
	n, err := strconv.ParseInt(*value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s is %.40q, must be an integer below 2^63", store.ErrCorrupt, column, *value)
	}
	return n, nil
}
