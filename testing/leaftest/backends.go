package leaftest

import (
	"math"
	"strings"

	"github.com/idworker/idworker/testing/dbtest"
)

// MySQLBackend is MySQL or MariaDB.
var MySQLBackend = Backend{
	Database:   dbtest.MySQL,
	Start:      dbtest.StartMySQL,
	Pair:       dbtest.StartMariaDBPair,
	Rest:       func(addr, database string) string { return "mysql://tcp(" + addr + ")/" + database },
	Dialect:    MySQL,
	IgnoreCase: officialMySQL + " DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci",
	NoKey:      "CREATE TABLE leaf_alloc (biz_tag varchar(128), max_id bigint, step int)",
	Float:      "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id double NOT NULL, step int NOT NULL)",
	Narrow:     "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id int NOT NULL, step int NOT NULL)",
	Wide:       "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint unsigned NOT NULL, step int NOT NULL)",
	Widen:      "ALTER TABLE leaf_alloc MODIFY max_id bigint NOT NULL",
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
	Bounded: map[string]string{
		"int CHECK":   "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint NOT NULL CHECK (max_id <= 5000), step int NOT NULL)",
		"table CHECK": "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint NOT NULL, step int NOT NULL, CHECK (max_id > 0 AND max_id < 5001))",
		"BETWEEN":     "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint NOT NULL, step int NOT NULL, CHECK (max_id BETWEEN 1 AND 5000))",
	},
	NoDatabase: "information_schem",
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
}

// PostgresBackend is PostgreSQL.
var PostgresBackend = Backend{
	Database: dbtest.Postgres,
	Start:    dbtest.StartPostgres,
	Pair:     dbtest.StartPostgresPair,
	Rest:     func(addr, database string) string { return "postgres://" + addr + "/" + database },
	Dialect:  Postgres,
	IgnoreCase: "CREATE COLLATION IF NOT EXISTS nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);" +
		strings.Replace(officialPostgres, "varchar(128)", "varchar(128) COLLATE nocase", 1),
	NoKey:  "CREATE TABLE leaf_alloc (biz_tag varchar(128), max_id bigint, step int)",
	Float:  "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id double precision NOT NULL, step int NOT NULL)",
	Narrow: "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id int NOT NULL, step int NOT NULL)",
	Wide:   "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id numeric(20) NOT NULL, step int NOT NULL)",
	Widen:  "ALTER TABLE leaf_alloc ALTER COLUMN max_id TYPE bigint",
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
	Bounded: map[string]string{
		"CHECK":   "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint NOT NULL CHECK (max_id <= 5000), step int NOT NULL)",
		"BETWEEN": "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint NOT NULL CHECK (max_id BETWEEN 1 AND 5000), step int NOT NULL)",
		"DOMAIN": "CREATE DOMAIN five AS bigint CHECK (VALUE < 5001);" +
			"CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id five NOT NULL, step int NOT NULL)",
	},
	NoDatabase: "no_such_database",
	User: func(user, password, grant string) []string {
		statements := []string{"CREATE USER " + user + " PASSWORD '" + password + "'"}
		if grant != "" {
			statements = append(statements, "GRANT "+grant+" ON leaf_alloc TO "+user)
		}
		return append(statements, "DROP OWNED BY "+user+"; DROP USER "+user)
	},
}
