// Package leaftest is Leaf on real databases: the tables as different
// installations have them, what Leaf's servers do, and handles of store/sql onto
// such tables. The suite that uses most of it is store/sql's.
package leaftest

import (
	"context"
	dbsql "database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/sql"
	"github.com/idworker/idworker/testing/dbtest"
)

// Dialect is Leaf on a kind of database.
type Dialect struct {
	Database func(testing.TB) *dbtest.DB   // empty, on a shared server
	Pair     func(testing.TB) *dbtest.Pair // the test's own

	Shapes map[string]string  // CREATE TABLE leaf_alloc …, as different installations have it
	Arg    func(n int) string // the placeholder of the nth argument

	Narrow string // CREATE TABLE leaf_alloc …, where max_id has 32 bits
	Widen  string // makes max_id a BIGINT

	// User returns statements that create a user with a right on leaf_alloc, or
	// without any. The last statement removes the user.
	User func(user, password, grant string) []string
}

// The tables of Leaf's script, and of its translation for PostgreSQL.
const (
	officialMySQL = "CREATE TABLE leaf_alloc (biz_tag varchar(128) NOT NULL DEFAULT '', max_id bigint(20) NOT NULL DEFAULT '1'," +
		" step int(11) NOT NULL, description varchar(256) DEFAULT NULL," +
		" update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (biz_tag)) ENGINE=InnoDB"

	officialPostgres = "CREATE TABLE leaf_alloc (biz_tag varchar(128) NOT NULL DEFAULT '' PRIMARY KEY, max_id bigint NOT NULL DEFAULT 1," +
		" step int NOT NULL, description varchar(256), update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)"
)

// MySQL is Leaf where it is at home.
var MySQL = Dialect{
	Database: dbtest.MySQL,
	Pair:     dbtest.StartMariaDBPair,
	Narrow:   "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id int NOT NULL, step int NOT NULL)",
	Widen:    "ALTER TABLE leaf_alloc MODIFY max_id bigint NOT NULL",
	User: func(user, password, grant string) []string {
		name := "'" + user + "'@'%'"
		statements := []string{"CREATE USER " + name + " IDENTIFIED BY '" + password + "'"}
		if grant == "" { // without any right, the database is closed to the user
			statements = append(statements, "GRANT SELECT ON other TO "+name)
		} else {
			statements = append(statements, "GRANT "+grant+" ON leaf_alloc TO "+name)
		}
		// Without a right on it, the server calls an unknown database
		// forbidden.
		statements = append(statements, "GRANT CREATE ON `information\\_schem`.* TO "+name)
		return append(statements, "DROP USER "+name)
	},
	Shapes: map[string]string{
		"official": officialMySQL,
		"desc":     strings.Replace(officialMySQL, "description", "`desc`", 1),
		"id": "CREATE TABLE leaf_alloc (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, biz_tag varchar(128) NOT NULL DEFAULT ''," +
			" max_id bigint unsigned NOT NULL DEFAULT 1, step int NOT NULL, description varchar(256) DEFAULT NULL," +
			" create_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP," +
			" update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, UNIQUE KEY uk (biz_tag)) ENGINE=InnoDB",
	},
	Arg: func(int) string { return "?" },
}

// Postgres is Leaf with another driver.
var Postgres = Dialect{
	Database: dbtest.Postgres,
	Pair:     dbtest.StartPostgresPair,
	Narrow:   "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id int NOT NULL, step int NOT NULL)",
	Widen:    "ALTER TABLE leaf_alloc ALTER COLUMN max_id TYPE bigint",
	User: func(user, password, grant string) []string {
		statements := []string{"CREATE USER " + user + " PASSWORD '" + password + "'"}
		if grant != "" {
			statements = append(statements, "GRANT "+grant+" ON leaf_alloc TO "+user)
		}
		return append(statements, "DROP OWNED BY "+user+"; DROP USER "+user)
	},
	Shapes: map[string]string{
		"official": officialPostgres,
		"desc":     strings.Replace(officialPostgres, "description", `"desc"`, 1),
		"id": "CREATE TABLE leaf_alloc (id bigserial PRIMARY KEY, biz_tag varchar(128) NOT NULL DEFAULT '' UNIQUE," +
			" max_id bigint NOT NULL DEFAULT 1, step int NOT NULL, description varchar(256)," +
			" create_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)",
	},
	Arg: func(n int) string { return fmt.Sprintf("$%d", n) },
}

// Segment takes a segment as Leaf's servers do, with their pair of statements.
func (d Dialect) Segment(ctx context.Context, db *dbsql.DB, tag string) (seg store.Segment, step int64, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return seg, 0, err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = "+d.Arg(1), tag); err != nil {
		return seg, 0, err
	}
	var maxID int64
	err = tx.QueryRowContext(ctx, "SELECT max_id, step FROM leaf_alloc WHERE biz_tag = "+d.Arg(1), tag).Scan(&maxID, &step)
	if err != nil {
		return seg, 0, err
	}
	return store.Segment{First: maxID - step, End: maxID}, step, tx.Commit()
}

// tables counts the tables of [Dialect.Handles].
var tables atomic.Int64

// Handles creates a table in a database, and returns a function that opens a
// handle onto it. Each handle stands for a process, and is closed when the test
// ends.
func (d Dialect) Handles(t testing.TB, db *dbtest.DB) func() store.Database {
	t.Helper()
	name := fmt.Sprintf("leaf_alloc_%d", tables.Add(1))
	if err := Open(t, db.DSN(), name).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func() store.Database {
		t.Helper()
		return Open(t, db.DSN(), name)
	}
}

// Table is a handle onto a new table, see [Dialect.Handles].
func (d Dialect) Table(t testing.TB, db *dbtest.DB) store.Database {
	t.Helper()
	return d.Handles(t, db)()
}

// Open returns a handle, which is closed when the test ends.
func Open(t testing.TB, dsn, table string) *sql.LeafTable {
	t.Helper()
	s, err := sql.Open(dsn, table)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
