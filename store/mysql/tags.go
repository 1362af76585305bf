package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

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
	rows, err := s.db.QueryContext(ctx, "SELECT biz_tag, max_id, step FROM "+s.table)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		heard()
		var bizTag, maxID, step *string
		if err := rows.Scan(&bizTag, &maxID, &step); err != nil {
			return nil, nil, err
		}
		if leaf.Skips(skip, bizTag) {
			continue
		}
		tag, err := leaf.TagFromRow(bizTag, maxID, step)
		if err != nil {
			corrupt = append(corrupt, err)
			continue
		}
		tags = append(tags, tag)
	}
	return tags, corrupt, rows.Err()
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
	return s.tagError(tag.Name, s.withConnection(ctx, func(ctx context.Context, conn *sql.Conn) error {
		return s.insert(ctx, conn, tag)
	}))
}

// insert inserts the row of a tag.
func (s *Store) insert(ctx context.Context, conn *sql.Conn, tag store.Tag) error {
	_, err := conn.ExecContext(ctx, "INSERT INTO "+s.table+" (biz_tag, max_id, step) VALUES (?, ?, ?)",
		tag.Name, tag.Next, tag.Step)
	switch {
	case isDuplicate(err):
		return s.explainDuplicate(ctx, conn, tag.Name)
	case isOutOfRange(err), isTooLong(err):
		return fmt.Errorf("%w: %w", store.ErrBadTag, err)
	}
	return err
}

// explainDuplicate distinguishes a tag that exists from one that the table's collation
// merely treats as equal.
func (s *Store) explainDuplicate(ctx context.Context, conn *sql.Conn, tag string) error {
	exists, err := s.tagExists(ctx, conn, tag)
	if err != nil {
		return err
	}
	if !exists {
		return fmt.Errorf("%w: %w: the collation of the column biz_tag treats this tag as equal to another one that exists; give the column the collation utf8mb4_bin", store.ErrBadTag, store.ErrSetup)
	}
	return store.ErrTagExists
}

// SetStep implements [store.Store]. A malformed tag is ErrBadTag, and so is a step
// that the table's column cannot hold.
func (s *Store) SetStep(ctx context.Context, tag string, step int64) error {
	if err := leaf.CheckTagAndStep(tag, step); err != nil {
		return err
	}
	return s.tagError(tag, s.withConnection(ctx, func(ctx context.Context, conn *sql.Conn) error {
		result, err := conn.ExecContext(ctx, "UPDATE "+s.table+" SET step = ? WHERE"+whereTag, step, tag, tag)
		if isOutOfRange(err) {
			return fmt.Errorf("%w: step %d: %w", store.ErrBadTag, step, err)
		}
		if err != nil {
			return err
		}
		changed, err := result.RowsAffected()
		if err != nil || changed > 0 {
			return err
		}
		exists, err := s.tagExists(ctx, conn, tag) // it may have had this step already
		if err == nil && !exists {
			err = store.ErrNoTag
		}
		return err
	}))
}

func (s *Store) tagExists(ctx context.Context, conn *sql.Conn, tag string) (exists bool, err error) {
	err = conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+s.table+" WHERE"+whereTag+")", tag, tag).Scan(&exists)
	return exists, err
}
