package sql

import (
	"cmp"
	"context"
	dbsql "database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// mysql is the dialect of MySQL and MariaDB.
var mysql = dialect{
	kind:    "mysql",
	maxName: 64,
	quote:   "`",

	// The first comparison uses the index, the second is exact in any
	// collation and character set.
	meanings: []string{"{tag}", "biz_tag = ? AND CAST(CONVERT(biz_tag USING utf8mb4) AS BINARY) = ?", "{text}", "biz_tag", "{int}", "?",
		"{raised}", "LAST_INSERT_ID(max_id + ?)"},
	safeTable: "a table of a transactional engine, such as InnoDB",

	// The table may be listed twice, as a TEMPORARY table hides the other.
	// MEMORY is empty after a restart, MyISAM may lose acknowledged rows.
	describe: `SELECT t.table_name, CASE
			WHEN UPPER(t.table_type) LIKE '%VIEW%' THEN 'a view'
			WHEN UPPER(t.table_type) LIKE '%TEMPORARY%' THEN 'TEMPORARY'
			WHEN t.engine IS NULL THEN 'of no engine'
			WHEN e.transactions = 'YES' THEN ''
			ELSE CONCAT('ENGINE=', t.engine) END
		FROM information_schema.tables t LEFT JOIN information_schema.engines e ON e.engine = t.engine
		WHERE t.table_schema = {schema} AND t.table_name = {name}`,

	create: `CREATE TABLE IF NOT EXISTS {table} (
			biz_tag     VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
			max_id      BIGINT NOT NULL DEFAULT 1,
			step        INT NOT NULL,
			description VARCHAR(256) DEFAULT NULL,
			update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
			PRIMARY KEY (biz_tag)
		) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin`,
	distinct: "ALTER TABLE {table} MODIFY biz_tag VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''",

	tryRow: tryInsertID,

	serverName: "SELECT CONCAT(@@hostname, ':', @@port)",

	// MariaDB's 3 syncs more often than 1. A crash rolls back what is missing
	// from the binary log, if any. Settings of other engines are not examined.
	setting: "SELECT @@GLOBAL.%s",
	settings: []setting{
		{name: "innodb_flush_log_at_trx_commit", safe: []string{"1", "3"}},
		{name: "sync_binlog", safe: []string{"1"}, with: "log_bin"},
	},

	// MariaDB's numbers are the same.
	reasons: map[string]error{
		"1045": errMayBeTLS, "1698": errMayBeTLS, // also without the TLS that MariaDB requires
		"3159": errTLS,
		"1130": errHost,
		"1046": errDatabase, "1049": errDatabase,
		"1146": store.ErrNoTable,
		"1288": errNotTable,
		"1054": errNoColumn,
		"1044": errNoRight, "1142": errNoRight, "1143": errNoRight, // on a database, table, column
		"1290": errReadOnly, "1792": errReadOnly, "1836": errReadOnly, // server, transaction, mode
		"1665": errBinlog,
		"3098": errNoKey, // of group replication
		"1820": errExpired, "1862": errExpired,
		"3118": errUnlock, "4151": errUnlock, // of MySQL, MariaDB
		"1129": errBlocked,
		"1050": errExists, "1062": errExists, // table, row
		"1264": errNoFit, "1406": errNoFit, // number, text
		"3819": errCheck, "4025": errCheck, // of MySQL, MariaDB
		"1053": errShutdown,
		"1205": errLocked,
	},

	parse:  parseMySQL,
	change: changeMySQL,
}

// sessionVariables are set on every connection and override the server's
// defaults. The lock timeouts, in seconds, limit statements whose caller has
// given up: the server does not notice that the connection is gone while a
// statement waits for a lock. Rows are locked for a round trip, usually.
var sessionVariables = map[string]string{
	"autocommit":               "1",
	"sql_mode":                 "'STRICT_ALL_TABLES'",
	"innodb_lock_wait_timeout": "1", // for a row
	"lock_wait_timeout":        "3", // for the table
}

var errMySQLDSN = errors.New("malformed DSN, want mysql://user:password@tcp(host:port)/database?name=value")

// parseMySQL reads a DSN. The driver's errors are not passed on, as some quote
// a part of the DSN that may belong to the password.
func parseMySQL(dsn string, c *Config) error {
	rest := strings.TrimPrefix(dsn, "mysql://")
	if strings.Contains(rest, "?strict=") || strings.Contains(rest, "&strict=") { // the driver panics
		return errMySQLDSN
	}
	config, err := driver.ParseDSN(rest)
	if err != nil || config.DBName == "" || config.User == "" {
		return errMySQLDSN
	}
	// The driver would set each of these as a session variable.
	if len(config.Params) > 0 {
		names := slices.Sorted(maps.Keys(config.Params))
		return fmt.Errorf("malformed DSN: %q is not a driver parameter", names[0])
	}
	config.Params = maps.Clone(sessionVariables)
	config.InterpolateParams = true // a prepared statement takes two round trips
	config.ClientFoundRows = false  // rows affected are the rows that changed
	config.RejectReadOnly = false   // leave does that, and does not hide the server's message
	config.CheckConnLiveness = true // before an idle connection is used
	config.Logger = &driver.NopLogger{}
	for timeout, usual := range map[*time.Duration]time.Duration{
		&config.Timeout: CallTimeout, &config.WriteTimeout: CallTimeout, &config.ReadTimeout: max(CallTimeout, listSilence),
	} {
		if *timeout <= 0 {
			*timeout = usual
		}
	}
	c.database, c.server = config.DBName, config.User+"@"+config.Addr
	if c.connector, err = driver.NewConnector(config); err != nil {
		return errMySQLDSN
	}
	return nil
}

// tryInsertID raises a row by 0: a trigger on UPDATE, or a proxy, makes the
// insert ID 0. Triggers are invisible to users without the right TRIGGER. A row
// that is locked, or has no proper name, counts as none.
func tryInsertID(ctx context.Context, t *LeafTable, conn *dbsql.Conn, tag string) (tried bool, err error) {
	where, args := " WHERE max_id BETWEEN 1 AND {int} LIMIT 1", []any{int64(math.MaxInt64)}
	if tag != "" {
		where, args = " WHERE {tag} AND max_id BETWEEN 1 AND {int}", []any{tag, tag, int64(math.MaxInt64)}
	}
	var name string
	if err := t.each(ctx, conn, func(r row) {
		if r.bizTag != nil {
			name = *r.bizTag
		}
	}, where, args...); err != nil {
		return false, err
	}
	switch {
	case messages.CheckTag(name) == nil:
	case tag == "":
		return false, nil
	default:
		return tryInsertID(ctx, t, conn, "")
	}
	_, maxID, err := t.change(ctx, conn, t.text(raise), 0, name, name, int64(math.MaxInt64))
	switch {
	case t.is(err, errLocked):
		return false, nil
	case err != nil || maxID > 0:
		return err == nil, err
	}
	_, err = t.find(ctx, conn, name)
	if errors.Is(err, store.ErrNoTag) { // removed since it was read
		return false, nil
	}
	return false, cmp.Or(err, errTrigger)
}

// changeMySQL returns the insert ID as max_id. It belongs to an earlier
// statement if no row changed, and is 0 if the table has a trigger on UPDATE.
func changeMySQL(ctx context.Context, conn *dbsql.Conn, query string, args ...any) (rows, maxID int64, err error) {
	result, err := conn.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, 0, err
	}
	if rows, err = result.RowsAffected(); err != nil {
		return 0, 0, err
	}
	maxID, err = result.LastInsertId()
	return rows, maxID, err
}
