package sql

import (
	"context"
	dbsql "database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// CallTimeout bounds every call except Tags, and each step of making a
// connection, so that a stopped database is noticed. Callers give up after the
// same time anyway. Tests set a longer timeout, before they parse a DSN.
var CallTimeout = 3 * time.Second

// Reservations is the number of calls of Reserve that should be in flight at a
// time. More would time out waiting for a connection.
const Reservations = 16

// MaxConns is the number of connections of a Table. Each is busy for a round
// trip per reservation, and a database has to serve many processes. Two are for
// calls other than reservations.
const MaxConns = Reservations + 2

// ErrScheme is returned by [Parse] if no dialect has the DSN's scheme.
var ErrScheme = errors.New("malformed DSN, want mysql://…, postgres://… or postgresql://…")

// A dialect holds all differences between kinds of servers. Its statements, and
// those of the methods, contain words in braces, see [LeafTable.text].
type dialect struct {
	kind      string
	maxName   int      // length of an identifier, in bytes
	quote     string   // around an identifier
	schemas   bool     // a database has schemas, and a schema is no database
	numbered  bool     // placeholders are $1, $2, …
	meanings  []string // {tag}, {text}, {int} and {raised}, each followed by its meaning
	safeTable string   // kind of table required

	// describe selects name and flaw of the table and of all that belongs to
	// it. The flaw is empty if rows survive a crash.
	describe string
	create   string // creates the table
	distinct string // gives biz_tag a collation that distinguishes Order from order

	// tryRow fails if an UPDATE of the row of a tag would be useless although
	// the server reports no error. Without such a row it tries any other, and
	// reports whether there was one. It changes nothing.
	tryRow func(ctx context.Context, t *LeafTable, conn *dbsql.Conn, tag string) (tried bool, err error)

	serverName string // selects the server's name
	setting    string // selects the value of a setting, for fmt
	settings   []setting

	reasons map[string]error // see reason

	// parse reads a DSN into c. Its errors must not quote the DSN.
	parse func(dsn string, c *Config) error

	// change runs a statement that writes, and returns the number of rows and
	// the max_id of the last.
	change func(ctx context.Context, conn *dbsql.Conn, query string, args ...any) (rows, maxID int64, err error)
}

// dialects are the dialects by the scheme of a DSN.
var dialects = map[string]*dialect{"mysql": &mysql, "postgres": &postgres, "postgresql": &postgres}

// Config is a parsed DSN and the name of a table.
type Config struct {
	dialect   *dialect
	connector driver.Connector
	database  string
	server    string   // user@host:port
	table     []string // preceded by its schema, if any
}

// Parse reads mysql://user:password@tcp(host:port)/database?… with the
// parameters of github.com/go-sql-driver/mysql, such as tls=true; or
// postgres://user:password@host:port/database?… with those of libpq that
// github.com/jackc/pgx supports, such as sslmode=verify-full. The table may be
// qualified by a schema. PostgreSQL distinguishes upper and lower case in it.
// Errors name the malformed part and never contain the DSN.
func Parse(dsn, table string) (Config, error) {
	scheme, _, _ := strings.Cut(dsn, "://")
	d := dialects[scheme]
	if d == nil {
		return Config{}, ErrScheme
	}
	parts := strings.Split(table, ".")
	for _, part := range parts {
		if len(parts) > 2 || len(part) > d.maxName || !identifier.MatchString(part) {
			return Config{}, fmt.Errorf("malformed table name %q: want [schema.]table, each of 1 to %d letters, digits and _, no leading digit", table, d.maxName)
		}
	}
	c := Config{dialect: d, table: parts}
	err := d.parse(dsn, &c)
	return c, err
}

// identifier matches the names that every server accepts. PostgreSQL silently
// truncates names longer than dialect.maxName, and would find another table.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Kind is "mysql", also for MariaDB, or "postgres".
func (c Config) Kind() string { return c.dialect.kind }

// Name is the database and the table, with its schema if it is qualified.
// Tables with different names are different tables, or on different servers.
func (c Config) Name() string {
	name := strings.Join(c.table, ".")
	if len(c.table) > 1 && !c.dialect.schemas {
		return name
	}
	return c.database + "." + name
}

// Follow returns a copy whose connections are made with the latest Config, of
// the same kind and name: its password, user or server may have changed.
func (c Config) Follow(latest func() Config) Config {
	c.connector = follower{c.connector, latest}
	return c
}

type follower struct {
	driver.Connector
	latest func() Config
}

// Connect implements driver.Connector.
func (f follower) Connect(ctx context.Context) (driver.Conn, error) {
	return f.latest().connector.Connect(ctx)
}

// Server is user@host:port. Of several hosts in the DSN it is the first.
func (c Config) Server() string { return c.server }

// LeafTable is Leaf's table in a database.
type LeafTable struct {
	*dialect
	db      *dbsql.DB
	name    string // for messages
	words   *strings.Replacer
	checked atomic.Bool  // cleared by a raise that returned no number
	doubled sync.Map     // tags with several rows
	limit   atomic.Int64 // see columns

	answered atomic.Int64 // when the server answered last, see since
	looked   atomic.Int64 // when look looked last
	server   atomic.Pointer[string]
}

var _ store.Database = (*LeafTable)(nil)

// Open parses a DSN and opens the table, see [Parse] and [Config.Open].
func Open(dsn, table string) (*LeafTable, error) {
	c, err := Parse(dsn, table)
	if err != nil {
		return nil, err
	}
	return c.Open()
}

// Open returns the table without connecting. Check, or the first call that
// needs the database, reports a bad configuration. The error is [ErrScheme] for
// a Config that does not come from [Parse].
func (c Config) Open() (*LeafTable, error) {
	d := c.dialect
	if d == nil {
		return nil, ErrScheme
	}
	db := dbsql.OpenDB(c.connector)
	db.SetMaxOpenConns(MaxConns)
	db.SetMaxIdleConns(MaxConns)
	// Shorter than MySQL's wait_timeout, and than the time for which firewalls
	// keep idle connections.
	db.SetConnMaxLifetime(10 * time.Minute)
	db.SetConnMaxIdleTime(3 * time.Minute)
	schema, name := "DATABASE()", c.table[len(c.table)-1]
	if len(c.table) > 1 {
		schema = "'" + c.table[0] + "'"
	}
	quoted := d.quote + strings.Join(c.table, d.quote+"."+d.quote) + d.quote
	words := append([]string{"{table}", quoted, "{schema}", schema, "{name}", "'" + name + "'"}, d.meanings...)
	return &LeafTable{dialect: d, db: db, name: strings.Join(c.table, "."), words: strings.NewReplacer(words...)}, nil
}

// Close closes the connections, those in use when their calls end.
func (t *LeafTable) Close() error { return t.db.Close() }

// text replaces the words of a statement: {table}, {tag}, {text}, {int},
// {raised}, and {schema} and {name}, the parts of the table's name as literals.
// Names need no escaping, see identifier.
func (t *LeafTable) text(statement string) string {
	statement = t.words.Replace(statement)
	for n := 1; t.numbered && strings.Contains(statement, "?"); n++ {
		statement = strings.Replace(statement, "?", "$"+strconv.Itoa(n), 1)
	}
	return statement
}

// callTag is call for a tag. It refuses a malformed name, or a number below 1,
// with ErrBadTag. Names that pass need no escaping in any character set.
func (t *LeafTable) callTag(ctx context.Context, tag store.Tag, f func(context.Context, *dbsql.Conn) error) error {
	if err := messages.CheckTag(tag.Name); err != nil {
		return fmt.Errorf("%w: %w", store.ErrBadTag, err)
	}
	if err := tag.Check(); err != nil {
		return err
	}
	return t.call(ctx, tag.Name, f)
}

// callChecked is callTag, after Check if the table is not checked yet.
func (t *LeafTable) callChecked(ctx context.Context, tag store.Tag, f func(context.Context, *dbsql.Conn) error) error {
	return t.callTag(ctx, tag, func(ctx context.Context, conn *dbsql.Conn) error {
		if !t.checked.Load() {
			if err := t.check(ctx, conn, tag.Name); err != nil {
				return err
			}
		}
		return f(ctx, conn)
	})
}

// call calls f with a connection, within CallTimeout. A tag is for the error.
func (t *LeafTable) call(ctx context.Context, tag string, f func(context.Context, *dbsql.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	return t.connected(ctx, tag, f)
}

// connected calls f with a connection, and explains its error. If a connection
// turns out to be broken before f is called, database/sql chooses another. It
// does not repeat what f sends.
func (t *LeafTable) connected(ctx context.Context, tag string, f func(context.Context, *dbsql.Conn) error) error {
	conn, err := t.db.Conn(ctx)
	if err == nil {
		t.look(ctx, conn)
		err = f(ctx, conn)
		t.leave(conn, err)
	}
	if err == nil {
		return nil
	}
	return &store.TableError{Table: t.name, Tag: tag, Err: t.explain(ctx, err)}
}

// leave returns a connection to the pool. If its server is no primary any more,
// or nothing has answered for CallTimeout, the idle connections lead nowhere
// either: all are closed, and the next call looks up the server's name.
func (t *LeafTable) leave(conn *dbsql.Conn, err error) {
	moved := t.is(err, errReadOnly) || t.is(err, errShutdown)
	if moved {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it
		t.looked.Store(0)
		t.checked.Store(false) // the next server may lack what was checked
	} else if !isAway(err) && !errors.Is(err, context.Canceled) {
		t.answered.Store(time.Now().UnixNano())
	}
	_ = conn.Close()
	if moved || since(&t.answered) > CallTimeout {
		t.db.SetMaxIdleConns(0)
		t.db.SetMaxIdleConns(MaxConns)
	}
}

// lookEvery is the time between looks at the server.
const lookEvery = 10 * time.Second

// look reads, at times, what may change without a restart: behind one address,
// another server may answer, and a column may be made wider.
func (t *LeafTable) look(ctx context.Context, conn *dbsql.Conn) {
	if since(&t.looked) < lookEvery {
		return
	}
	t.looked.Store(time.Now().UnixNano())
	var name string
	if conn.QueryRowContext(ctx, t.serverName).Scan(&name) == nil {
		t.server.Store(&name)
		_, _ = t.columns(ctx, conn) // the error shows elsewhere
	}
}

// Server implements [store.Table].
func (t *LeafTable) Server() string {
	if name := t.server.Load(); name != nil {
		return *name
	}
	return ""
}

// since returns the time since a moment, in nanoseconds since 1970.
func since(moment *atomic.Int64) time.Duration {
	return time.Duration(time.Now().UnixNano() - moment.Load())
}
