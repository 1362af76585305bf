package sql

import (
	"context"
	dbsql "database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// listSilence bounds the time in which a database sends no row while it lists
// its tags. A listing may take longer in total: a table has any number of rows.
const listSilence = 10 * time.Second

// Tags implements [store.Table]. Rows with NULL, or with a number that does not
// fit an int64, are left out and reported, unless their names are not those of
// tags.
func (t *LeafTable) Tags(ctx context.Context) ([]store.Tag, error) {
	ctx, heard, cancel := untilSilent(ctx)
	defer cancel()
	var tags []store.Tag
	var corrupt []error
	err := t.connected(ctx, "", func(ctx context.Context, conn *dbsql.Conn) error {
		return t.each(ctx, conn, func(r row) {
			heard()
			tag, err := r.parse()
			switch {
			case err == nil:
				tags = append(tags, tag)
				return
			case r.bizTag != nil && messages.CheckTag(*r.bizTag) != nil:
				tags = append(tags, store.Tag{Name: *r.bizTag})
				return
			case r.bizTag != nil:
				err = &store.EntryError{Tag: *r.bizTag, Err: fmt.Errorf("tag %.140q: %w", *r.bizTag, err)}
			}
			corrupt = append(corrupt, err)
		}, "")
	})
	if err != nil {
		return nil, err
	}
	if len(corrupt) > 0 {
		err = fmt.Errorf("table %s: %w", t.name, errors.Join(corrupt...))
	}
	return tags, err
}

// untilSilent returns a context that ends unless heard is called at least every
// listSilence.
func untilSilent(ctx context.Context) (_ context.Context, heard, cancel func()) {
	ctx, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(listSilence, func() {
		end(&failure{fmt.Sprintf("%s: no row arrived for %v", timedOut, listSilence), []error{context.DeadlineExceeded}})
	})
	return ctx, func() { timer.Reset(listSilence) }, func() {
		timer.Stop()
		end(nil)
	}
}

// CreateTag implements [store.Table]. A step that the column cannot hold, or a
// constraint refuses, is ErrBadTag. Of several concurrent calls, the unique key on biz_tag lets a
// single call succeed. A retry after a lost reply may find the tag that the
// first call created, and return ErrTagExists. The first call checks the table
// as Check does.
func (t *LeafTable) CreateTag(ctx context.Context, tag store.Tag) error {
	return t.callChecked(ctx, tag, func(ctx context.Context, conn *dbsql.Conn) error {
		_, _, err := t.change(ctx, conn, t.text("INSERT INTO {table} (biz_tag, max_id, step) VALUES (?, ?, ?)"), tag.Name, tag.Next, tag.Step)
		if t.is(err, errNoFit) || t.is(err, errCheck) {
			return fmt.Errorf("%w: %w", store.ErrBadTag, explained(err))
		}
		if !t.is(err, errExists) {
			return err
		}
		switch _, err := t.find(ctx, conn, tag.Name); {
		case errors.Is(err, store.ErrNoTag): // the column makes it equal to another
			return fmt.Errorf("%w: %w", store.ErrBadTag, t.errCollation())
		case err == nil, errors.Is(err, store.ErrCorrupt):
			return store.ErrTagExists
		default:
			return err
		}
	})
}

// SetStep implements [store.Table]. A step that the column cannot hold, or a
// constraint refuses, is ErrBadTag.
func (t *LeafTable) SetStep(ctx context.Context, tag string, step int64) error {
	return t.callTag(ctx, store.Tag{Name: tag, Step: step, Next: 1}, func(ctx context.Context, conn *dbsql.Conn) error {
		rows, _, err := t.change(ctx, conn, t.text("UPDATE {table} SET step = ? WHERE {tag}"), step, tag, tag)
		if t.is(err, errNoFit) || t.is(err, errCheck) {
			return fmt.Errorf("%w: step %d: %w", store.ErrBadTag, step, explained(err))
		}
		if err != nil || rows > 0 {
			return err
		}
		// MySQL does not count rows that had this step before.
		if _, err = t.find(ctx, conn, tag); errors.Is(err, store.ErrCorrupt) {
			return nil
		}
		return err
	})
}

// Raise implements [store.Table]. A next that the column cannot hold is
// ErrSetup. The first call checks the table as Check does.
func (t *LeafTable) Raise(ctx context.Context, tag string, next int64) error {
	return t.callChecked(ctx, store.Tag{Name: tag, Step: 1, Next: next}, func(ctx context.Context, conn *dbsql.Conn) error {
		rows, _, err := t.change(ctx, conn, t.text("UPDATE {table} SET max_id = GREATEST(max_id, {int}) WHERE {tag} AND max_id BETWEEN 1 AND {int}"),
			next, tag, tag, int64(math.MaxInt64))
		switch {
		case t.is(err, errNoFit):
			return because(setup(fmt.Sprintf("column max_id is too narrow for %d", next), "make it BIGINT"), err)
		case err != nil || rows == 1:
			return err
		case rows > 1:
			return errRows(rows)
		}
		// MySQL does not count a row that was high enough.
		have, err := t.next(ctx, conn, tag)
		if err == nil && have < next {
			return store.ErrChanged
		}
		return err
	})
}

// RemoveTag implements [store.Table]. A next below 1 is ErrBadTag. A retry after
// a lost answer may return ErrNoTag for a tag that the first call removed.
func (t *LeafTable) RemoveTag(ctx context.Context, tag string, next int64) error {
	return t.callTag(ctx, store.Tag{Name: tag, Step: 1, Next: next}, func(ctx context.Context, conn *dbsql.Conn) error {
		rows, _, err := t.change(ctx, conn, t.text("DELETE FROM {table} WHERE {tag} AND max_id <= {int}"), tag, tag, next)
		switch {
		case t.is(err, errNoRight):
			return because(errNoDelete, err)
		case err != nil || rows > 0:
			return err
		}
		if _, err = t.next(ctx, conn, tag); err == nil {
			err = store.ErrChanged
		}
		return err
	})
}
