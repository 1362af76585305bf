package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// Store keeps the counters of one table of one database.
type Store struct {
	pool     *pgxpool.Pool
	table    string // quoted
	name     string // for messages
	fullName string // see Name
	checked  atomic.Bool
}

var _ store.Store = (*Store)(nil)

// maxTableName is the length at which the server cuts an identifier off.
const maxTableName = 63

var errDSN = errors.New("malformed DSN, expected postgres://user:password@host:port/database, and parameters, " +
	"if any, as name=value after a question mark; in user and password, special characters have to be percent-encoded")

// Config is a parsed DSN and table, from which stores are opened.
type Config struct {
	pool  *pgxpool.Config
	table []string // and its schema before it, if it has one
}

// Parse reads postgres://user:password@host:port/database?…, where the parameters are
// those of libpq that github.com/jackc/pgx knows, such as sslmode=verify-full. The table
// may be schema-qualified, and is case-sensitive. Errors
// name what is malformed and never contain the DSN.
func Parse(dsn, table string) (Config, error) {
	parts, err := leaf.ParseTable(table, maxTableName)
	if err != nil {
		return Config{}, err
	}
	config, err := parseDSN(dsn)
	return Config{config, parts}, err
}

// Open returns the store in a table, see [Parse] and [Config.Open].
func Open(dsn, table string) (*Store, error) {
	c, err := Parse(dsn, table)
	if err != nil {
		return nil, err
	}
	return c.Open()
}

// Open returns the store. It does not connect: what is wrong with the database is reported
// by Check, or by the first call that needs it.
func (c Config) Open() (*Store, error) {
	pool, err := pgxpool.NewWithConfig(context.Background(), c.pool.Copy())
	if err != nil {
		return nil, errDSN
	}
	return &Store{pool: pool, table: pgx.Identifier(c.table).Sanitize(), name: strings.Join(c.table, "."), fullName: c.Name()}, nil
}

// Name says which table stores of this configuration count in, see [Store.Name].
func (c Config) Name() string {
	return c.pool.ConnConfig.Database + "." + strings.Join(c.table, ".")
}

// Server says for people who logs in to which server, as user@host:port. Of several servers it is
// the first.
func (c Config) Server() string {
	conn := c.pool.ConnConfig
	return fmt.Sprintf("%s@%s:%d", conn.User, conn.Host, conn.Port)
}

// Name is the database and the table. Stores with different names are different tables.
// The name does not say which server: one database has many.
func (s *Store) Name() string { return s.fullName }

// Close closes the connections once the calls that use them have ended.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}

// parseDSN reads a DSN. The driver's own errors are not passed on: they quote the DSN,
// and if it is malformed, they may fail to find and mask the password in it.
func parseDSN(dsn string) (*pgxpool.Config, error) {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return nil, errDSN
	}
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil || strings.ContainsAny(config.ConnConfig.Host, "()") || exposesPassword(config.ConnConfig) { // () as in MySQL's DSNs
		return nil, errDSN
	}
	config.MaxConns = leaf.MaxConns
	config.MaxConnLifetime = 10 * time.Minute // see store/mysql
	config.MaxConnIdleTime = 3 * time.Minute
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	if config.ConnConfig.ConnectTimeout <= 0 {
		config.ConnConfig.ConnectTimeout = leaf.CallTimeout
	}
	config.ShouldPing = shouldPing
	return config, nil
}

// exposesPassword reports whether there is an @ where none belongs: then the password
// contains one of @/?, and what follows was taken for a host, a database or a parameter,
// which are not treated as secrets.
func exposesPassword(c *pgx.ConnConfig) bool {
	shown := slices.AppendSeq([]string{c.Host, c.Database}, maps.Keys(c.RuntimeParams))
	for _, f := range c.Fallbacks {
		shown = append(shown, f.Host)
	}
	return slices.ContainsFunc(shown, func(s string) bool { return strings.Contains(s, "@") })
}

// shouldPing checks, without asking the server, whether a connection that was idle for a
// while is broken, and only then has the pool ping it: a ping every time would be a
// second round trip.
func shouldPing(_ context.Context, p pgxpool.ShouldPingParams) bool {
	//nolint:staticcheck // deprecated in favour of Ping, except where latency matters, as it does here
	return p.IdleDuration > time.Second && p.Conn.PgConn().CheckConn() != nil
}
