package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/leaftest"
)

// database is a kind of database, with Leaf's table in it.
type database struct {
	leaftest.Dialect
	name string
	find func(testing.TB) *dbtest.DB // empty, on a shared server
}

var databases = []database{{leaftest.MySQL, "MySQL", dbtest.MySQL}, {leaftest.Postgres, "PostgreSQL", dbtest.Postgres}}

// with returns an empty Leaf table with some rows.
func (d database) with(t testing.TB, rows ...string) *dbtest.DB {
	t.Helper()
	db := d.find(t)
	db.Exec(t, d.Shapes["official"])
	insert(t, db, rows...)
	return db
}

// mariaDB returns an empty Leaf table that compares names by bytes, as templates
// need.
func mariaDB(t testing.TB) *dbtest.DB {
	t.Helper()
	db := databases[0].with(t)
	db.Exec(t, "ALTER TABLE leaf_alloc MODIFY biz_tag VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''")
	return db
}

// postgres returns an empty Leaf table.
func postgres(t testing.TB) *dbtest.DB {
	t.Helper()
	return databases[1].with(t)
}

// insert adds rows as a DBA does: "'order', 1, 1000".
func insert(t testing.TB, db *dbtest.DB, rows ...string) {
	t.Helper()
	for _, row := range rows {
		db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ("+row+")")
	}
}

// maxID reads a tag's max_id from the table.
func maxID(t testing.TB, db *dbtest.DB, tag string) (n int64) {
	t.Helper()
	query := fmt.Sprintf("SELECT max_id FROM leaf_alloc WHERE biz_tag = '%s'", tag)
	if err := db.SQL().QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// on is the environment that names a process's database.
func on(dsn string) settings { return settings{env: []string{"IDWORKER_STORE=" + dsn}} }

// unsafeTestDatabase begins the warning about most databases of tests: dbtest
// runs them without fsync.
const unsafeTestDatabase = "database acknowledges commits before syncing them"

// says counts the log lines with a message.
func (p *process) says(message string) int {
	return strings.Count(p.stderr.String(), "\t"+message)
}
