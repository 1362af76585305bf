// Package leaftest is the suite for store/sql on real databases. A table copes
// with Leaf's tables as they are found, with Leaf's servers on the same rows,
// with databases that go away, and with databases that are not set up.
//
// [MySQLBackend] and [PostgresBackend] are the databases. A test elsewhere gets
// a table from [Backend.Table]. Each file is named for what it checks.
package leaftest

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/sql"
	"github.com/idworker/idworker/testing/dbtest"
)

// Backend is a kind of database.
type Backend struct {
	Database func(testing.TB) *dbtest.DB                // empty, on a shared server
	Start    func(testing.TB, ...string) *dbtest.Server // the test's own
	Pair     func(testing.TB) *dbtest.Pair              // likewise

	// Rest is a DSN without a user.
	Rest func(addr, database string) string

	Dialect

	// CREATE TABLE leaf_alloc …, with a fault.
	IgnoreCase string // biz_tag treats Order and order as equal
	NoKey      string // no key, and NULLs are allowed
	Float      string // max_id is floating point
	Narrow     string // max_id has 32 bits
	Wide       string // max_id has numbers beyond 2^63
	Widen      string // makes max_id a BIGINT

	// Bounded are statements that create tables in which a constraint keeps
	// max_id at 5000 or below.
	Bounded map[string]string

	// Limits are the largest values of max_id, by its type.
	Limits map[string]int64

	// Names are types of biz_tag in the official table, and whether they keep
	// names as they are.
	Names map[string]bool

	// Forgetful tables, by the flaw in the error: statements that create and
	// remove leaf_alloc.
	Forgetful map[string][2]string

	// User returns statements that create a user with a right on leaf_alloc, or
	// without any. The last statement removes the user.
	User func(user, password, grant string) []string

	// NoDatabase is the name of a database that does not exist, and to which
	// the users above would have access.
	NoDatabase string
}

// Run runs the suite.
func (b *Backend) Run(t *testing.T) {
	for shape, create := range b.Shapes {
		t.Run("BesideLeaf/"+shape, func(t *testing.T) { b.testBesideLeaf(t, create) })
	}
	for _, test := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"OnlyTheExactTag", b.testExactTag},
		{"DistinctTags", b.testDistinctTags},
		{"TypesOfNames", b.testNames},
		{"LockedRow", b.testLockedRow},
		{"Find", b.testFind},
		{"UnusableRows", b.testUnusableRows},
		{"ManyTags", b.testManyTags},
		{"ColumnsThatCannotCount", b.testColumns},
		{"Limits", b.testLimits},
		{"LastNumbers", b.testLastNumbers},
		{"RemoveBesideLeaf", b.testRemoveBesideLeaf},
		{"TablesThatForget", b.testForgetful},
		{"Migrate", b.testMigrate},
		{"MalformedDSN", b.testMalformedDSN},
		{"BadDatabases", b.testBadDatabases},
		{"Rights", b.testRights},
		{"SentOnce", b.testSentOnce},
		{"OneRoundTrip", b.testOneRoundTrip},
		{"Outages", b.testOutages},
		{"SwitchOver", b.testSwitchOver},
	} {
		t.Run(test.name, test.run)
	}
}

// tables counts the tables of [Backend.Handles].
var tables atomic.Int64

// Handles creates a table in a database, and returns a function that opens a
// handle onto it. Each handle stands for a process, and is closed when the test
// ends.
func (b *Backend) Handles(t testing.TB, db *dbtest.DB) func() store.Database {
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

// Table is a handle onto a new table, see [Backend.Handles].
func (b *Backend) Table(t testing.TB, db *dbtest.DB) store.Database {
	t.Helper()
	return b.Handles(t, db)()
}

// Open returns a handle, which is closed when the test ends.
func Open(t testing.TB, dsn, table string) *sql.Table {
	t.Helper()
	s, err := sql.Open(dsn, table)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// fresh returns a handle onto a new table in a database.
func fresh(t *testing.T, db *dbtest.DB, create string) *sql.Table {
	t.Helper()
	db.Exec(t, create)
	return Open(t, db.DSN(), "leaf_alloc")
}

// maxID reads the stored value, past the store.
func maxID(t *testing.T, db *dbtest.DB, tag string) (n int64) {
	t.Helper()
	query := fmt.Sprintf("SELECT MAX(max_id) FROM leaf_alloc WHERE biz_tag = '%s'", tag)
	if err := db.SQL().QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
