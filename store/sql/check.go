package sql

import (
	"context"
	dbsql "database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// Check implements [store.Database]. The first Reserve, Raise or CreateTag does
// the same. Later alterations of the table are not detected.
func (t *LeafTable) Check(ctx context.Context) error { return t.call(ctx, "", t.checkAny) }

func (t *LeafTable) checkAny(ctx context.Context, conn *dbsql.Conn) error {
	return t.check(ctx, conn, "")
}

// check is Check, and prefers the row of a tag for the trial.
func (t *LeafTable) check(ctx context.Context, conn *dbsql.Conn, tag string) error {
	if _, err := t.columns(ctx, conn); err != nil {
		return err
	}
	if err := t.checkDurable(ctx, conn); err != nil {
		return err
	}
	if err := t.updateNothing(ctx, conn); err != nil {
		return err
	}
	tried, err := t.tryRow(ctx, t, conn, tag)
	if tried {
		t.checked.Store(true)
	}
	return err
}

// updateNothing changes no row, but fails if the user may not change rows, the
// server is no primary, or a rule replaces the statement. MySQL's safe updates
// demand a comparison with the key.
func (t *LeafTable) updateNothing(ctx context.Context, conn *dbsql.Conn) error {
	_, _, err := t.change(ctx, conn, t.text("UPDATE {table} SET max_id = max_id WHERE biz_tag = '' AND 1 = 0"))
	return err
}

// Probe implements [store.Table]. A table that is not checked, or was found to
// be unusable since, is checked.
func (t *LeafTable) Probe(ctx context.Context) error {
	if t.checked.Load() {
		return t.call(ctx, "", t.updateNothing)
	}
	return t.Check(ctx)
}

// Limit implements [store.Table]. It needs the right SELECT.
func (t *LeafTable) Limit(ctx context.Context) (limit int64, err error) {
	err = t.call(ctx, "", func(ctx context.Context, conn *dbsql.Conn) (err error) {
		limit, err = t.columns(ctx, conn)
		return err
	})
	return limit, err
}

// Limited implements [store.Table].
func (t *LeafTable) Limited() int64 {
	if limit := t.limit.Load(); limit > 0 {
		return limit
	}
	return math.MaxInt64
}

// limits are the largest numbers of the integer types, at most the largest
// int64, by the drivers' names.
var limits = map[string]int64{
	"TINYINT": math.MaxInt8, "UNSIGNED TINYINT": math.MaxUint8,
	"SMALLINT": math.MaxInt16, "UNSIGNED SMALLINT": math.MaxUint16, "INT2": math.MaxInt16,
	"MEDIUMINT": 1<<23 - 1, "UNSIGNED MEDIUMINT": 1<<24 - 1,
	"INT": math.MaxInt32, "UNSIGNED INT": math.MaxUint32, "INT4": math.MaxInt32,
	"BIGINT": math.MaxInt64, "UNSIGNED BIGINT": math.MaxInt64, "INT8": math.MaxInt64,
}

// columns refuses columns that would round numbers or pad names, and returns
// the limit of max_id, which it remembers. A CHECK may end the numbers earlier:
// the server reports that when a number violates it.
func (t *LeafTable) columns(ctx context.Context, conn *dbsql.Conn) (limit int64, err error) {
	rows, err := conn.QueryContext(ctx, t.text("SELECT biz_tag, step, max_id FROM {table} LIMIT 0"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.ColumnTypes()
	if err != nil {
		return 0, err
	}
	if kind := columns[0].DatabaseTypeName(); kind == "BINARY" || kind == "BYTEA" {
		return 0, setup(fmt.Sprintf("column biz_tag is %s, which changes names", kind), "make it VARCHAR and cut off zero bytes")
	}
	for _, column := range columns[1:] {
		kind := column.DatabaseTypeName()
		if limit = limits[kind]; limit == 0 {
			return 0, setup(fmt.Sprintf("column %s is %s", column.Name(), kind), "make it BIGINT")
		}
	}
	if err = rows.Err(); err == nil {
		t.limit.Store(limit) // of the last column
	}
	return limit, err
}

// checkDurable refuses a table that may lose rows in a crash or with a
// connection. The server describes the table to which the session resolves the
// name.
func (t *LeafTable) checkDurable(ctx context.Context, conn *dbsql.Conn) error {
	var part, flaw string
	err := conn.QueryRowContext(ctx, t.text(t.describe)+" ORDER BY 2 DESC").Scan(&part, &flaw) // flaws first
	switch {
	case errors.Is(err, dbsql.ErrNoRows):
		return &store.UnsafeTableError{Kind: "missing from the server's catalog", Want: t.safeTable}
	case err == nil && flaw != "":
		return &store.UnsafeTableError{Kind: fmt.Sprintf("%s (%s)", flaw, part), Want: t.safeTable}
	}
	return err
}

// CheckFirst implements [store.Database]. It inserts no row.
func (t *LeafTable) CheckFirst(ctx context.Context) error {
	return t.call(ctx, "", func(ctx context.Context, conn *dbsql.Conn) error {
		if _, err := conn.ExecContext(ctx, t.text("INSERT INTO {table} (biz_tag, max_id, step) SELECT biz_tag, max_id, step FROM {table} WHERE 1 = 0")); err != nil {
			return err
		}
		// Beside a column, the server compares literals as it compares the
		// column: the tags of one character.
		var literals strings.Builder
		tags, distinct := 0, 0
		for c := range rune(utf8.RuneSelf) {
			if messages.CheckTag(string(c)) == nil {
				fmt.Fprintf(&literals, " UNION ALL SELECT '%c'", c)
				tags++
			}
		}
		err := conn.QueryRowContext(ctx, t.text("SELECT COUNT(DISTINCT biz_tag) FROM (SELECT biz_tag FROM {table} WHERE 1 = 0"+
			literals.String()+") AS tags")).Scan(&distinct)
		if err == nil && distinct != tags {
			err = t.errCollation()
		}
		return err
	})
}

// errCollation is the ErrSetup of a column biz_tag that makes tags equal.
func (t *LeafTable) errCollation() error {
	return setup("column biz_tag treats different names as equal, such as Order and order", "run: "+t.text(t.distinct))
}

// Migrate implements [store.Database]. An existing table is not changed, so
// users without the right to create tables can call Migrate. The new table has
// the columns of Leaf's, and a collation that distinguishes Order from order.
func (t *LeafTable) Migrate(ctx context.Context) error {
	return t.call(ctx, "", func(ctx context.Context, conn *dbsql.Conn) error {
		if _, err := t.columns(ctx, conn); !t.is(err, store.ErrNoTable) {
			return err
		}
		_, err := conn.ExecContext(ctx, t.text(t.create))
		// PostgreSQL's IF NOT EXISTS overlooks a table that another process is
		// about to commit. Its error depends on the progress of that process,
		// and does not prove that the table exists.
		if t.is(err, errExists) {
			if _, failed := t.columns(ctx, conn); failed == nil {
				return nil
			}
		}
		return err
	})
}

// setting decides whether commits are on disk when they are acknowledged.
type setting struct {
	name string
	safe []string // the safe values, the usual first
	with string   // matters only if this setting is not 0
}

// Durability implements [store.Database].
func (t *LeafTable) Durability(ctx context.Context) error {
	var wrong []error
	err := t.call(ctx, "", func(ctx context.Context, conn *dbsql.Conn) error {
		for _, s := range t.settings {
			if s.with != "" {
				if value, err := t.read(ctx, conn, s.with); err == nil && value == "0" {
					continue
				}
			}
			value, err := t.read(ctx, conn, s.name)
			switch {
			case errors.Is(err, store.ErrSettingUnknown):
				wrong = append(wrong, err)
			case err != nil:
				return err
			case !slices.Contains(s.safe, value):
				wrong = append(wrong, &store.UnsafeSettingError{Setting: s.name, Value: value, Want: s.safe[0]})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(wrong...)
}

// read returns the value of a setting. A server may refuse to reveal it, or may
// not support it; so may a proxy.
func (t *LeafTable) read(ctx context.Context, conn *dbsql.Conn, name string) (value string, err error) {
	err = conn.QueryRowContext(ctx, fmt.Sprintf(t.setting, name)).Scan(&value)
	if _, answer := serverError(err); answer != nil && !t.is(err, errShutdown) {
		err = fmt.Errorf("%w: %s: %w", store.ErrSettingUnknown, name, explained(answer))
	}
	return value, err
}
