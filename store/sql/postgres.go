package sql

import (
	"cmp"
	"context"
	dbsql "database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/idworker/idworker/store"
)

// postgres is the dialect of PostgreSQL.
var postgres = dialect{
	kind:     "postgres",
	maxName:  63,
	quote:    `"`,
	schemas:  true,
	numbered: true,

	// The first comparison uses the index, the second is exact whatever the
	// column's collation is, or its type, such as citext. As text, CHAR has no
	// padding.
	meanings: []string{"{tag}", `biz_tag = ? AND biz_tag::text COLLATE "C" = ?`, "{text}", "biz_tag::text",
		"{int}", "?::bigint", "{raised}", "max_id + ?::bigint"},
	safeTable: "an ordinary logged table",

	// An update reaches partitions and inheriting tables.
	describe: `WITH RECURSIVE part(id) AS (
			SELECT '{table}'::regclass::oid
			UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN part ON i.inhparent = part.id
		) SELECT c.relname::text, CASE
			WHEN c.relkind IN ('v', 'm') THEN 'a view'
			WHEN c.relkind = 'f' THEN 'a foreign table'
			WHEN c.relkind NOT IN ('r', 'p') THEN 'no table'
			WHEN c.relpersistence = 'u' THEN 'UNLOGGED'
			WHEN c.relpersistence = 't' THEN 'TEMPORARY'
			WHEN c.relpersistence = 'p' THEN ''
			ELSE 'of persistence ' || c.relpersistence::text END
		FROM part JOIN pg_catalog.pg_class c ON c.oid = part.id`,

	create: `CREATE TABLE IF NOT EXISTS {table} (
			biz_tag     varchar(128) COLLATE "C" NOT NULL DEFAULT '' PRIMARY KEY,
			max_id      bigint NOT NULL DEFAULT 1,
			step        integer NOT NULL,
			description varchar(256),
			update_time timestamptz NOT NULL DEFAULT now()
		)`,
	distinct: `ALTER TABLE {table} ALTER COLUMN biz_tag TYPE VARCHAR(128) COLLATE "C"`,

	tryRow: tryRowSecurity,

	serverName: "SELECT concat_ws(':', host(inet_server_addr()), inet_server_port())",

	// This package turns synchronous_commit on where it is off, but Leaf's
	// servers do not.
	setting: "SELECT pg_catalog.current_setting('%s')",
	settings: []setting{
		{name: "fsync", safe: []string{"on"}},
		{name: "synchronous_commit", safe: []string{"on", "local", "remote_write", "remote_apply"}},
	},

	reasons: map[string]error{
		"28P01": errLogin, "28000": errHost, "3D000": errDatabase, "3F000": errSchema,
		"42704": errParameter,
		"42P01": store.ErrNoTable,
		"42809": errNotTable,
		"42703": errNoColumn,
		"42501": errNoRight, "ExecWithCheckOptions": errSecurity, "RewriteQuery": errRule, // of a policy, a rule
		"25006": errReadOnly, "CheckCmdReplicaIdentity": errNoKey,
		"42P07": errExists, "42710": errExists, "23505": errExists, // table, its type, row
		"22003": errNoFit, "22001": errNoFit, // number, text
		"23514": errCheck,
		"57P01": errShutdown, "57P02": errShutdown, "57P03": errShutdown,
	},

	parse:  parsePostgres,
	change: changePostgres,
}

var errPostgresDSN = errors.New("malformed DSN, want postgres://user:password@host:port/database?name=value, percent-encoded")

// parsePostgres reads a DSN. The driver's errors are not passed on: they quote
// the DSN, and may fail to mask the password if it is malformed.
func parsePostgres(dsn string, c *Config) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil || strings.ContainsAny(config.Host, "()") || exposesPassword(config) { // () as in MySQL's DSNs
		return errPostgresDSN
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // a single round trip, nothing prepared
	if config.ConnectTimeout <= 0 {
		config.ConnectTimeout = CallTimeout
	}
	c.connector = stdlib.GetConnector(*config, stdlib.OptionShouldPing(shouldPing))
	c.database, c.server = config.Database, fmt.Sprintf("%s@%s:%d", config.User, config.Host, config.Port)
	return nil
}

// exposesPassword reports a misplaced @. The password then contains @, / or ?,
// and its rest was parsed as a host, a database or a parameter, which are not
// treated as secrets.
func exposesPassword(c *pgx.ConnConfig) bool {
	shown := slices.AppendSeq([]string{c.Host, c.Database}, maps.Keys(c.RuntimeParams))
	for _, f := range c.Fallbacks {
		shown = append(shown, f.Host)
	}
	return slices.ContainsFunc(shown, func(s string) bool { return strings.Contains(s, "@") })
}

// shouldPing checks an idle connection without a round trip. Only if it is
// broken does the driver ping, which fails, and database/sql discards the
// connection. By default, the driver would ping every connection that was idle
// for a second.
func shouldPing(_ context.Context, p stdlib.ShouldPingParams) bool {
	//nolint:staticcheck // deprecated in favour of Ping, except where latency matters, as it does here
	return p.IdleDuration > time.Second && p.Conn.PgConn().CheckConn() != nil
}

// tryRowSecurity fails if row security hides a row, or all, from UPDATE. A row
// that policies show to SELECT must be visible to SELECT FOR KEY SHARE, which
// applies the policies of UPDATE. Without a policy, both are empty.
func tryRowSecurity(ctx context.Context, t *LeafTable, conn *dbsql.Conn, tag string) (tried bool, err error) {
	where, args := "", []any(nil)
	if tag != "" {
		where, args = " WHERE {tag}", []any{tag, tag, tag, tag}
	}
	var hidden bool
	err = conn.QueryRowContext(ctx, t.text(`SELECT CASE WHEN pg_catalog.row_security_active('{table}'::regclass) THEN
		NOT EXISTS (SELECT FROM {table}`+where+` FOR KEY SHARE) AND (EXISTS (SELECT FROM {table}`+where+`) OR COALESCE((
			SELECT NOT (bool_or(polcmd IN ('r', '*')) AND bool_or(polcmd IN ('w', '*'))) FROM pg_catalog.pg_policy
			WHERE polrelid = '{table}'::regclass AND polpermissive AND (0 = ANY (polroles)
				OR EXISTS (SELECT FROM unnest(polroles) AS role(id) WHERE pg_catalog.pg_has_role(id, 'USAGE')))
		), true)) ELSE false END`), args...).Scan(&hidden)
	if err == nil && hidden {
		err = errSecurity
	}
	return err == nil, err
}

// syncCommit makes the statement's own transaction wait for the disk.
const syncCommit = `CASE pg_catalog.current_setting('synchronous_commit') WHEN 'off' THEN pg_catalog.set_config('synchronous_commit', 'on', true) END`

// changePostgres reads the reply to its end, which comes after the commit: the
// row alone proves nothing. For NULL, or a value that is no integer, max_id is
// 0.
func changePostgres(ctx context.Context, conn *dbsql.Conn, query string, args ...any) (count, maxID int64, err error) {
	rows, err := conn.QueryContext(ctx, query+" RETURNING max_id::text, "+syncCommit, args...)
	if err != nil {
		return 0, 0, err
	}
	for rows.Next() {
		var text, set dbsql.NullString
		if err := rows.Scan(&text, &set); err != nil {
			_ = rows.Close()
			return 0, 0, err
		}
		count++
		maxID, _ = strconv.ParseInt(text.String, 10, 64)
	}
	return count, maxID, cmp.Or(rows.Err(), rows.Close()) // usually the same
}
