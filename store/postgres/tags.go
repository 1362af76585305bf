package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// Tags implements [store.Store]. Rows are listed as they are, in bounds or not. Only rows
// with NULL, or with a number that does not fit an int64, are left out and reported.
func (s *Store) Tags(ctx context.Context) ([]store.Tag, error) { return s.list(ctx, nil) }

// OpenListing implements [store.Lister]. Each listing reads the whole table: what is skipped comes
// over the wire, and is not kept.
func (s *Store) OpenListing(skip func(tag string) bool) store.Listing {
	return leaf.Listing(func(ctx context.Context) ([]store.Tag, error) { return s.list(ctx, skip) })
}

func (s *Store) list(ctx context.Context, skip func(tag string) bool) ([]store.Tag, error) {
	tags, corrupt, err := s.readRows(ctx, skip)
	if err != nil {
		return nil, s.tableError(fmt.Errorf("list tags: %w", s.explainError(err)))
	}
	return tags, s.tableError(errors.Join(corrupt...))
}

func (s *Store) readRows(ctx context.Context, skip func(tag string) bool) (tags []store.Tag, corrupt []error, err error) {
	ctx, heard, cancel := leaf.UntilSilent(ctx)
	defer cancel()
	rows, err := s.pool.Query(ctx, "SELECT biz_tag::text, max_id::text, step::text FROM "+s.table)
	if err != nil {
		return nil, nil, err
	}
	var bizTag, maxID, step *string
	_, err = pgx.ForEachRow(rows, []any{&bizTag, &maxID, &step}, func() error {
		heard()
		if leaf.Skips(skip, bizTag) {
			return nil
		}
		tag, err := leaf.TagFromRow(bizTag, maxID, step)
		if err != nil {
			corrupt = append(corrupt, err)
			return nil
		}
		tags = append(tags, tag)
		return nil
	})
	return tags, corrupt, err
}

// CreateTag implements [store.Store]. A malformed name is ErrBadTag, and so is a step
// that the table's column cannot hold. After a lost answer a second call may find the
// tag that the first one created, and return ErrTagExists.
func (s *Store) CreateTag(ctx context.Context, tag store.Tag) error {
	if err := leaf.CheckName(tag.Name); err != nil {
		return err
	}
	if err := tag.Check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, leaf.CallTimeout)
	defer cancel()
	return s.tagError(tag.Name, s.explainError(s.insert(ctx, tag)))
}

// insert inserts the row of a tag. It is on disk when it returns, as a reservation is.
func (s *Store) insert(ctx context.Context, tag store.Tag) error {
	rows, err := s.pool.Query(ctx, "INSERT INTO "+s.table+" (biz_tag, max_id, step) VALUES ($1, $2, $3) RETURNING "+syncCommit,
		tag.Name, tag.Next, tag.Step)
	if err == nil {
		rows.Close() // reads the answer to its end, which comes after the commit
		err = rows.Err()
	}
	switch {
	case isDuplicate(err):
		return s.explainDuplicate(ctx, tag.Name)
	case isOutOfRange(err), isTooLong(err):
		return fmt.Errorf("%w: %w", store.ErrBadTag, err)
	}
	return err
}

// explainDuplicate distinguishes a tag that exists from one that the column's collation
// or type merely treats as equal.
func (s *Store) explainDuplicate(ctx context.Context, tag string) error {
	var exists bool
	err := s.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+s.table+" WHERE"+whereTag+")", tag).Scan(&exists)
	if err != nil {
		return err
	}
	if !exists {
		return fmt.Errorf(`%w: %w: the column biz_tag treats this tag as equal to another one that exists; make the column varchar(128) COLLATE "C"`, store.ErrBadTag, store.ErrSetup)
	}
	return store.ErrTagExists
}

// SetStep implements [store.Store]. A malformed tag is ErrBadTag, and so is a step
// that the table's column cannot hold.
func (s *Store) SetStep(ctx context.Context, tag string, step int64) error {
	if err := leaf.CheckTagAndStep(tag, step); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, leaf.CallTimeout)
	defer cancel()
	changed, err := s.pool.Exec(ctx, "UPDATE "+s.table+" SET step = $2 WHERE"+whereTag, tag, step)
	switch {
	case isOutOfRange(err):
		err = fmt.Errorf("%w: step %d: %w", store.ErrBadTag, step, err)
	case err == nil && changed.RowsAffected() == 0:
		err = store.ErrNoTag
	}
	return s.tagError(tag, s.explainError(err))
}
