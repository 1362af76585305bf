package mysql

import (
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
)

// Store keeps the counters of one table of one database.
type Store struct {
	db       *sql.DB
	table    string // quoted
	name     string // for messages
	fullName string // see Name
	checked  atomic.Bool
}

var _ store.Store = (*Store)(nil)

// Scheme is the prefix of this package's DSNs.
const Scheme = "mysql://"

// sessionVariables are set on every connection and override the server's defaults. The
// lock timeouts, in seconds, keep statements whose caller has given up from piling up
// behind a lock: the server does not notice that the connection is gone.
var sessionVariables = map[string]string{
	"autocommit":               "1",
	"sql_mode":                 "'STRICT_ALL_TABLES'",
	"innodb_lock_wait_timeout": "3",
	"lock_wait_timeout":        "3",
}

// maxTableName is the server's limit for an identifier.
const maxTableName = 64

// Config is a parsed DSN and table, from which stores are opened.
type Config struct {
	connector sqldriver.Connector
	table     []string // and its schema before it, if it has one
	database  string
	server    string
}

// Parse reads mysql://user:password@tcp(host:port)/database?…, where the parameters
// are those of github.com/go-sql-driver/mysql, such as tls=true. The table may be
// schema-qualified. Errors name what is malformed and never contain the DSN.
func Parse(dsn, table string) (Config, error) {
	parts, err := leaf.ParseTable(table, maxTableName)
	if err != nil {
		return Config{}, err
	}
	config, err := parseDSN(dsn)
	if err != nil {
		return Config{}, err
	}
	connector, err := driver.NewConnector(config)
	if err != nil {
		return Config{}, errDSN // may quote the DSN
	}
	return Config{connector, parts, config.DBName, config.User + "@" + config.Addr}, nil
}

// Open returns the store in a table, see [Parse] and [Config.Open].
func Open(dsn, table string) (*Store, error) {
	c, err := Parse(dsn, table)
	if err != nil {
		return nil, err
	}
	return c.Open(), nil
}

// Open returns the store. It does not connect: what is wrong with the database is reported
// by Check, or by the first call that needs it.
func (c Config) Open() *Store {
	db := sql.OpenDB(c.connector)
	db.SetMaxOpenConns(leaf.MaxConns)
	db.SetMaxIdleConns(leaf.MaxConns)
	// Shorter than the server's wait_timeout and than the time that firewalls keep idle
	// connections. After a failover behind one name, every process is connected to the
	// new primary by then.
	db.SetConnMaxLifetime(10 * time.Minute)
	db.SetConnMaxIdleTime(3 * time.Minute)
	return &Store{db: db, table: "`" + strings.Join(c.table, "`.`") + "`", name: strings.Join(c.table, "."), fullName: c.Name()}
}

// Name says which table stores of this configuration count in, see [Store.Name].
func (c Config) Name() string {
	return strings.Join(append([]string{c.database}, c.table...)[len(c.table)-1:], ".")
}

// Server says for people who logs in to which server, as user@host:port.
func (c Config) Server() string { return c.server }

// Name is the database and the table. Stores with different names are different tables.
// The name does not say which server: one database has many.
func (s *Store) Name() string { return s.fullName }

// Close closes the connections. Calls under way fail.
func (s *Store) Close() error { return s.db.Close() }

var errDSN = errors.New("malformed DSN, expected mysql://user:password@tcp(host:port)/database, " +
	"and parameters, if any, as name=value after a question mark")

// parseDSN reads a DSN. The driver's own errors are not passed on: some quote what they
// could not parse, which may be part of the password.
func parseDSN(dsn string) (*driver.Config, error) {
	rest, ok := strings.CutPrefix(dsn, Scheme)
	if !ok || hasStrict(rest) {
		return nil, errDSN
	}
	config, err := driver.ParseDSN(rest)
	if err != nil || config.DBName == "" || config.User == "" {
		return nil, errDSN
	}
	// The driver would send a SET for every name that it does not know.
	if len(config.Params) > 0 {
		names := slices.Sorted(maps.Keys(config.Params))
		return nil, fmt.Errorf("malformed DSN: %q is not a parameter of the driver, and session variables cannot be set", names[0])
	}
	config.Params = maps.Clone(sessionVariables)
	config.InterpolateParams = true // one round trip; two with a prepared statement
	config.ClientFoundRows = false  // rows affected are the rows that were raised
	config.RejectReadOnly = false   // would hide the server's message
	config.CheckConnLiveness = true
	config.Logger = &driver.NopLogger{} // what it would log is returned too
	for _, timeout := range []*time.Duration{&config.Timeout, &config.ReadTimeout, &config.WriteTimeout} {
		if *timeout <= 0 {
			*timeout = leaf.CallTimeout
		}
	}
	return config, nil
}

// hasStrict reports whether the DSN has a parameter on which the driver panics.
func hasStrict(dsn string) bool {
	return strings.Contains(dsn, "?strict=") || strings.Contains(dsn, "&strict=")
}
