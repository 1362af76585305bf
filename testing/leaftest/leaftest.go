// Package leaftest is what the SQL stores promise beyond storetest: that they cope with
// Leaf's tables as found in the wild, with Leaf's servers on the same rows, with databases
// that go away, and with ones that are not set up.
//
// Each file is named for what it checks.
package leaftest

import (
	"context"
	"fmt"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/storetest"
)

// Store is what the SQL stores have in common.
type Store interface {
	store.Store
	Check(ctx context.Context) error
	CheckFirst(ctx context.Context) error
	Durability(ctx context.Context) error
	Migrate(ctx context.Context) error
	Close() error
}

// Backend is one sort of database.
type Backend struct {
	Database func(testing.TB) *dbtest.DB     // empty, on a shared server
	Start    func(testing.TB) *dbtest.Server // the test's own
	Open     func(dsn, table string) (Store, error)

	// Rest is a DSN without a user.
	Rest func(addr, database string) string

	Dialect

	// CREATE TABLE leaf_alloc …, as nobody should have it.
	IgnoreCase string // one whose biz_tag takes Order and order for the same
	NoKey      string // one without a key, and with NULLs
	Float      string // one whose max_id is floating point
	Narrow     string // one whose max_id has 32 bits

	// Forgetful tables, by what the error says: statements that create and remove leaf_alloc.
	Forgetful map[string][2]string

	// User returns statements that make a user with a right on leaf_alloc, or with none,
	// and as the last one what removes the user again.
	User func(user, password, grant string) []string

	// NoDatabase is the name of a database that does not exist, and to which the users
	// above would be let in.
	NoDatabase string
}

// Run checks all of it.
func (b *Backend) Run(t *testing.T) {
	t.Run("Contract", func(t *testing.T) { storetest.Run(t, b.contract(t)) })
	for shape, create := range b.Shapes {
		t.Run("BesideLeaf/"+shape, func(t *testing.T) { b.testBesideLeaf(t, create) })
	}
	for _, test := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"OnlyTheExactTag", b.testExactTag},
		{"DistinctTags", b.testDistinctTags},
		{"UnusableRows", b.testUnusableRows},
		{"ManyTags", b.testManyTags},
		{"ColumnsThatCannotCount", b.testColumns},
		{"TablesThatForget", b.testForgetful},
		{"Migrate", b.testMigrate},
		{"MalformedDSN", b.testMalformedDSN},
		{"BadDatabases", b.testBadDatabases},
		{"Rights", b.testRights},
		{"Outages", b.testOutages},
	} {
		t.Run(test.name, test.run)
	}
}

// contract gives each test of the suite a table of its own in one database.
func (b *Backend) contract(t *testing.T) storetest.Backend {
	db := b.Database(t)
	n := 0
	return func(t *testing.T) func() store.Store {
		n++
		table := fmt.Sprintf("leaf_alloc_%d", n)
		if err := b.open(t, db.DSN(), table).Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		return func() store.Store { return b.open(t, db.DSN(), table) }
	}
}

// open returns one more handle, closed when the test ends.
func (b *Backend) open(t *testing.T, dsn, table string) Store {
	t.Helper()
	s, err := b.Open(dsn, table)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// fresh returns a handle onto a new table in a database.
func (b *Backend) fresh(t *testing.T, db *dbtest.DB, create string) Store {
	t.Helper()
	db.Exec(t, create)
	return b.open(t, db.DSN(), "leaf_alloc")
}

// maxID is what is stored, past the store.
func maxID(t *testing.T, db *dbtest.DB, tag string) (n int64) {
	t.Helper()
	query := fmt.Sprintf("SELECT MAX(max_id) FROM leaf_alloc WHERE biz_tag = '%s'", tag)
	if err := db.SQL().QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
