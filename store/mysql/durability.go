package mysql

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	driver "github.com/go-sql-driver/mysql"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// safeTable is what a table has to be.
const safeTable = "a table of a transactional engine, such as InnoDB"

// description is how information_schema describes a table. For a view, engine is nil, and so is
// transactions.
type description struct {
	kind                 string
	engine, transactions *string
}

// checkEngine refuses tables of engines that keep no transaction log, such as MEMORY and
// MyISAM, and what is no table. A table that information_schema does not describe is refused
// too.
func (s *Store) checkEngine(ctx context.Context, conn *sql.Conn) error {
	found, err := s.describeTable(ctx, conn)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return &store.UnsafeTableError{Kind: "not in information_schema", Want: safeTable}
	}
	for _, d := range found {
		if what := d.forgetful(); what != "" {
			return &store.UnsafeTableError{Kind: what, Want: safeTable}
		}
	}
	return nil
}

// describeTable finds the table in information_schema. There it may stand more than once, as a
// TEMPORARY one hides the other.
func (s *Store) describeTable(ctx context.Context, conn *sql.Conn) ([]description, error) {
	var database string
	if err := conn.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database); err != nil {
		return nil, err
	}
	schema, name, qualified := strings.Cut(s.name, ".")
	if !qualified {
		schema, name = database, s.name
	}
	rows, err := conn.QueryContext(ctx, `SELECT t.table_type, t.engine, e.transactions
		FROM information_schema.tables t LEFT JOIN information_schema.engines e ON e.engine = t.engine
		WHERE t.table_schema = ? AND t.table_name = ?`, schema, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var found []description
	for rows.Next() {
		var d description
		if err := rows.Scan(&d.kind, &d.engine, &d.transactions); err != nil {
			return nil, err
		}
		found = append(found, d)
	}
	return found, rows.Err()
}

// forgetful says what is wrong with the table, or "".
func (d description) forgetful() string {
	kind := strings.ToUpper(d.kind)
	switch {
	case strings.Contains(kind, "VIEW"):
		return "a view"
	case strings.Contains(kind, "TEMPORARY"):
		return "TEMPORARY"
	case d.engine == nil:
		return "of no engine"
	case d.transactions == nil || *d.transactions != "YES":
		return "ENGINE=" + *d.engine
	}
	return ""
}

// The settings that decide whether a commit is on disk when it is acknowledged. MariaDB's 3
// syncs more often than 1. The binary log matters where there is one: what it lost in a crash is
// rolled back in the table.
var (
	flushLog = leaf.Setting{Name: "innodb_flush_log_at_trx_commit", Safe: []string{"1", "3"}}
	syncLog  = leaf.Setting{Name: "sync_binlog", Safe: []string{"1"}}
	hasLog   = leaf.Setting{Name: "log_bin", Safe: []string{"0"}}
)

// Durability reports settings with which the server acknowledges commits before they are on
// disk. Each is a [store.UnsafeSettingError], and one that the server does not tell is
// [store.ErrSettingUnknown]; several are joined. Any other error means that the database does
// not answer.
func (s *Store) Durability(ctx context.Context) error {
	return s.withConnection(ctx, func(ctx context.Context, conn *sql.Conn) error {
		read := func(setting leaf.Setting) (string, error) { return readSetting(ctx, conn, setting) }
		settings := []leaf.Setting{flushLog, syncLog}
		if value, err := read(hasLog); err == nil && hasLog.Check(value) == nil {
			settings = settings[:1]
		}
		return leaf.CheckSettings(settings, read)
	})
}

// readSetting returns the value of a global variable. No right is needed for that; a server
// that does not know the variable, or a proxy that does not let the question through, answers
// with an error.
func readSetting(ctx context.Context, conn *sql.Conn, setting leaf.Setting) (value string, err error) {
	err = conn.QueryRowContext(ctx, "SELECT @@GLOBAL."+setting.Name).Scan(&value)
	var answer *driver.MySQLError
	if errors.As(err, &answer) {
		err = setting.Unknown(answer)
	}
	return value, err
}
