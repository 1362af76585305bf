package sql_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/idworker/idworker/store/sql"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/leaftest"
)

// suite checks that a table copes with Leaf's tables as they are found, with
// Leaf's servers on the same rows, with databases that go away, and with
// databases that are not set up. Each file is named for what it checks.
type suite struct {
	leaftest.Dialect
	Start func(testing.TB, ...string) *dbtest.Instance // the test's own

	// Rest is a DSN without a user.
	Rest func(addr, database string) string

	// CREATE TABLE leaf_alloc …, with a fault.
	IgnoreCase string // biz_tag treats Order and order as equal
	NoKey      string // no key, and NULLs are allowed
	Float      string // max_id is floating point
	Wide       string // max_id has numbers beyond 2^63

	// Bounded are statements that create tables in which a constraint keeps
	// max_id at 5000 or below, and a statement that drops it, if any.
	Bounded map[string][2]string

	// Limits are the largest values of max_id, by its type.
	Limits map[string]int64

	// Names are types of biz_tag in the official table, and whether they keep
	// names as they are.
	Names map[string]bool

	// Forgetful tables, by the flaw in the error: statements that create and
	// remove leaf_alloc.
	Forgetful map[string][2]string

	// NoDatabase is the name of a database that does not exist, and to which
	// the users above would have access.
	NoDatabase string
}

// run runs the suite.
func (b *suite) run(t *testing.T) {
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

// fresh returns a handle onto a new table in a database.
func fresh(t *testing.T, db *dbtest.DB, create string) *sql.LeafTable {
	t.Helper()
	db.Exec(t, create)
	return leaftest.Open(t, db.DSN(), "leaf_alloc")
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

var mysqlSuite = suite{
	Start:      dbtest.StartMySQL,
	Rest:       func(addr, database string) string { return "mysql://tcp(" + addr + ")/" + database },
	Dialect:    leaftest.MySQL,
	IgnoreCase: officialMySQL + " DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci",
	NoKey:      "CREATE TABLE leaf_alloc (biz_tag varchar(128), max_id bigint, step int)",
	Float:      "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id double NOT NULL, step int NOT NULL)",
	Wide:       "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint unsigned NOT NULL, step int NOT NULL)",
	Limits: map[string]int64{
		"tinyint": math.MaxInt8, "tinyint unsigned": math.MaxUint8, "smallint": math.MaxInt16, "smallint unsigned": math.MaxUint16,
		"mediumint": 1<<23 - 1, "mediumint unsigned": 1<<24 - 1, "int": math.MaxInt32, "int unsigned": math.MaxUint32,
		"int(5) zerofill": math.MaxUint32, "bigint": math.MaxInt64, "bigint unsigned": math.MaxInt64,
	},
	Names: map[string]bool{
		"varchar(128) CHARACTER SET utf16": true, "char(20) CHARACTER SET utf32": true, "varchar(20) CHARACTER SET ucs2": true,
		"varchar(20) CHARACTER SET latin1": true, "varchar(20) CHARACTER SET gbk": true, "char(20)": true, "varbinary(20)": true,
		"binary(20)": false, "char(20) CHARACTER SET binary": false,
	},
	Forgetful: map[string][2]string{
		"ENGINE=MEMORY": {strings.Replace(officialMySQL, "InnoDB", "MEMORY", 1), "DROP TABLE leaf_alloc"},
		"ENGINE=MyISAM": {strings.Replace(officialMySQL, "InnoDB", "MyISAM", 1), "DROP TABLE leaf_alloc"},
		"a view": {strings.Replace(officialMySQL, "leaf_alloc", "leaf", 1) + "; CREATE VIEW leaf_alloc AS SELECT * FROM leaf",
			"DROP VIEW leaf_alloc; DROP TABLE leaf"},
	},
	Bounded: map[string][2]string{
		"column CHECK": {"CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint NOT NULL CHECK (max_id <= 5000), step int NOT NULL)",
			""}, // MySQL and MariaDB drop it in different ways
		"table CHECK": {"CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint NOT NULL, step int NOT NULL," +
			" CONSTRAINT five CHECK (max_id BETWEEN 1 AND 5000))", "ALTER TABLE leaf_alloc DROP CONSTRAINT five"},
	},
	NoDatabase: "information_schem",
}

var postgresSuite = suite{
	Start:   dbtest.StartPostgres,
	Rest:    func(addr, database string) string { return "postgres://" + addr + "/" + database },
	Dialect: leaftest.Postgres,
	IgnoreCase: "CREATE COLLATION IF NOT EXISTS nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);" +
		strings.Replace(officialPostgres, "varchar(128)", "varchar(128) COLLATE nocase", 1),
	NoKey:  "CREATE TABLE leaf_alloc (biz_tag varchar(128), max_id bigint, step int)",
	Float:  "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id double precision NOT NULL, step int NOT NULL)",
	Wide:   "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id numeric(20) NOT NULL, step int NOT NULL)",
	Limits: map[string]int64{"smallint": math.MaxInt16, "integer": math.MaxInt32, "bigint": math.MaxInt64},
	Names:  map[string]bool{"text": true, "char(20)": true, "name": true, "bytea": false},
	Forgetful: map[string][2]string{
		"UNLOGGED": {strings.Replace(officialPostgres, "TABLE", "UNLOGGED TABLE", 1), "DROP TABLE leaf_alloc"},
		"UNLOGGED (part)": {"CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint, step int) PARTITION BY LIST (biz_tag);" +
			"CREATE UNLOGGED TABLE part PARTITION OF leaf_alloc DEFAULT", "DROP TABLE leaf_alloc"},
		"UNLOGGED (heir)": {officialPostgres + "; CREATE UNLOGGED TABLE heir () INHERITS (leaf_alloc)", "DROP TABLE heir; DROP TABLE leaf_alloc"},
		"a view": {strings.Replace(officialPostgres, "leaf_alloc", "leaf", 1) + "; CREATE VIEW leaf_alloc AS SELECT * FROM leaf",
			"DROP VIEW leaf_alloc; DROP TABLE leaf"},
	},
	Bounded: map[string][2]string{
		"CHECK": {"CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint NOT NULL CONSTRAINT five CHECK (max_id BETWEEN 1 AND 5000), step int NOT NULL)",
			"ALTER TABLE leaf_alloc DROP CONSTRAINT five"},
		"DOMAIN": {"CREATE DOMAIN five AS bigint CONSTRAINT five CHECK (VALUE < 5001);" +
			"CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id five NOT NULL, step int NOT NULL)",
			"ALTER DOMAIN five DROP CONSTRAINT five"},
	},
	NoDatabase: "no_such_database",
}
