package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// Migrate creates the table if it is missing, with the columns that Leaf's has in MySQL.
// An existing table is left as it is.
func (s *Store) Migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaf.CallTimeout)
	defer cancel()
	// If the table exists, nothing is created, so that users without the right to create
	// tables can call Migrate too.
	if err := s.checkColumns(ctx); !hasCode(err, undefinedTable) {
		return s.tableError(s.explainError(err))
	}
	_, err := s.pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+s.table+` (
		biz_tag     varchar(128) COLLATE "C" NOT NULL DEFAULT '' PRIMARY KEY,
		max_id      bigint NOT NULL DEFAULT 1,
		step        integer NOT NULL,
		description varchar(256),
		update_time timestamptz NOT NULL DEFAULT now()
	)`)
	if alreadyThere(err) && s.checkColumns(ctx) == nil {
		err = nil // IF NOT EXISTS does not see what another process is about to commit
	}
	return s.tableError(s.explainError(err))
}

// Check finds out whether the database can serve as a store: it answers, lets the user
// in, has the table with its columns, which is one that keeps what it is told, and allows the
// user to read them and to write max_id. If one of these is not so, the error is ErrSetup, or
// one that wraps it: ErrNoTable or a [store.UnsafeTableError]. Any other error means that the
// database is away.
//
// The first Reserve does the same. If the table is altered afterwards, nobody notices.
func (s *Store) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaf.CallTimeout)
	defer cancel()
	return s.tableError(s.explainError(s.check(ctx)))
}

func (s *Store) ensureChecked(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	return s.check(ctx)
}

func (s *Store) check(ctx context.Context) error {
	if err := s.checkColumns(ctx); err != nil {
		return err
	}
	if err := s.checkPersistence(ctx); err != nil {
		return err
	}
	// Changes no row, but is refused to a user who may not change one.
	if _, err := s.pool.Exec(ctx, "UPDATE "+s.table+" SET max_id = max_id WHERE false"); err != nil {
		return err
	}
	s.checked.Store(true)
	return nil
}

func (s *Store) checkColumns(ctx context.Context) error {
	rows, err := s.pool.Query(ctx, "SELECT biz_tag, max_id, step FROM "+s.table+" LIMIT 0")
	if err != nil {
		return err
	}
	columns := slices.Clone(rows.FieldDescriptions()) // they are the connection's, which is another call's once rows is closed
	rows.Close()
	if err := rows.Err(); err != nil {
		return err
	}
	for _, column := range columns[1:] {
		switch column.DataTypeOID {
		case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
		default:
			return fmt.Errorf("%w: the column %s is not an integer, it must be bigint", store.ErrSetup, column.Name)
		}
	}
	return nil
}
