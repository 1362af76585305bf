package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/idworker/idworker/store"
)

// Migrate creates the table if it is missing, as Leaf defines it, but with a collation
// that distinguishes Order from order. An existing table is left as it is.
func (s *Store) Migrate(ctx context.Context) error {
	return s.tableError(s.withConnection(ctx, func(ctx context.Context, conn *sql.Conn) error {
		// If the table exists, nothing is created, so that users without the right to
		// create tables can call Migrate too.
		if err := s.checkColumns(ctx, conn); !hasNumber(err, erNoSuchTable) {
			return err
		}
		_, err := conn.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+s.table+` (
			biz_tag     VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
			max_id      BIGINT NOT NULL DEFAULT 1,
			step        INT NOT NULL,
			description VARCHAR(256) DEFAULT NULL,
			update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
			PRIMARY KEY (biz_tag)
		) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin`)
		return err
	}))
}

// Check finds out whether the database can serve as a store: it answers, lets the user
// in, has the table with its columns, which is one that keeps what it is told, and allows the
// user to read them and to write max_id. If one of these is not so, the error is ErrSetup, or
// one that wraps it: ErrNoTable or a [store.UnsafeTableError]. Any other error means that the
// database is away.
//
// The first Reserve does the same. If the table is altered afterwards, nobody notices.
func (s *Store) Check(ctx context.Context) error {
	return s.tableError(s.withConnection(ctx, s.check))
}

func (s *Store) ensureChecked(ctx context.Context, conn *sql.Conn) error {
	if s.checked.Load() {
		return nil
	}
	return s.check(ctx, conn)
}

func (s *Store) check(ctx context.Context, conn *sql.Conn) error {
	if err := s.checkColumns(ctx, conn); err != nil {
		return err
	}
	if err := s.checkEngine(ctx, conn); err != nil {
		return err
	}
	// Changes no row, but is refused to a user who may not change one.
	if _, err := conn.ExecContext(ctx, "UPDATE "+s.table+" SET max_id = max_id WHERE biz_tag = '' AND 1 = 0"); err != nil {
		return err
	}
	s.checked.Store(true)
	return nil
}

func (s *Store) checkColumns(ctx context.Context, conn *sql.Conn) error {
	rows, err := conn.QueryContext(ctx, "SELECT biz_tag, max_id, step FROM "+s.table+" LIMIT 0")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.ColumnTypes()
	if err != nil {
		return err
	}
	for _, column := range columns[1:] {
		if kind := column.DatabaseTypeName(); !strings.HasSuffix(kind, "INT") {
			return fmt.Errorf("%w: the column %s is %s, it must be BIGINT", store.ErrSetup, column.Name(), kind)
		}
	}
	return rows.Err()
}
