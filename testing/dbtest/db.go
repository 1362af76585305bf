package dbtest

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/idworker/idworker/testing/deps"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
	"github.com/idworker/idworker/testing/tier"
)

// DB is an empty database, which is removed when the test ends.
type DB struct {
	brand *brand
	at    account
	name  string
	sql   *sql.DB
}

// account is a server's address, and its administrator.
type account struct {
	host, port     string
	user, password string
	params         string // of the DSN in the environment
}

// DSN is how store/mysql and store/postgres open the database, as its owner.
func (d *DB) DSN() string { return d.DSNFor(d.at.user, d.at.password) }

// DSNFor is the DSN for another user.
func (d *DB) DSNFor(user, password string) string {
	return d.brand.dsn(account{d.at.host, d.at.port, user, password, d.at.params}, d.name)
}

// DSNVia is the DSN by way of a [proxy.Proxy].
func (d *DB) DSNVia(p *proxy.Proxy) string { return d.DSNForVia(d.at.user, d.at.password, p) }

// DSNForVia is the DSN for another user by way of a [proxy.Proxy].
func (d *DB) DSNForVia(user, password string, p *proxy.Proxy) string {
	host, port, _ := strings.Cut(p.Addr(), ":")
	return d.brand.dsn(account{host, port, user, password, d.at.params}, d.name)
}

// Addr is host:port of the server.
func (d *DB) Addr() string { return d.at.host + ":" + d.at.port }

// Name is the name of the database.
func (d *DB) Name() string { return d.name }

// SQL is a pool of connections as the database's owner, closed when the test
// ends.
func (d *DB) SQL() *sql.DB { return d.sql }

// Exec runs statements, or ends the test.
func (d *DB) Exec(t testing.TB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := d.sql.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// dropIdle closes the idle connections of the pool: their server is gone, which
// a driver may notice only when it has sent the next statement.
func (d *DB) dropIdle() {
	d.sql.SetMaxIdleConns(0)
	d.sql.SetMaxIdleConns(2) // the default
}

var databases atomic.Int64

// create makes an empty database on a server.
func (b *brand) create(t testing.TB, at account) *DB {
	t.Helper()
	admin := b.open(t, b.dsn(at, b.adminDB))
	d := &DB{brand: b, at: at, name: fmt.Sprintf("idworker_test_%d_%d", os.Getpid(), databases.Add(1))}
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+d.name); err != nil {
		t.Fatalf("%s: create a database: %v", b.name, err)
	}
	_ = admin.Close()
	d.sql = b.open(t, b.dsn(at, d.name))
	return d
}

// drop removes the database again.
func (d *DB) drop(t testing.TB) {
	_ = d.sql.Close()
	admin := d.brand.open(t, d.brand.dsn(d.at, d.brand.adminDB))
	if _, err := admin.Exec("DROP DATABASE " + d.name + d.brand.dropForce); err != nil {
		t.Errorf("%s: drop the database: %v", d.brand.name, err)
	}
	_ = admin.Close()
}

// open makes a pool, which is closed when the test ends.
func (b *brand) open(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(b.driver, strings.TrimPrefix(dsn, "mysql://"))
	if err != nil {
		t.Fatalf("%s: %v", b.name, err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// MySQL returns an empty database on a MySQL or MariaDB server.
func MySQL(t testing.TB) *DB {
	t.Helper()
	return mysqlServer.database(t)
}

// Postgres returns an empty database on a PostgreSQL server.
func Postgres(t testing.TB) *DB {
	t.Helper()
	return postgresServer.database(t)
}

// shared is the server of a brand that all tests of the process use.
type shared struct {
	once   sync.Once
	server *local // kept, for it lives only as long as its pipe; nil for others
	at     account
	from   string
	err    error
}

// database returns an empty database on the server of the process.
func (b *brand) database(t testing.TB) *DB {
	t.Helper()
	p := &b.process
	p.once.Do(func() { p.err = b.share() })
	if p.err != nil {
		b.need.Missing(t, p.err)
	}
	t.Logf("database: %s", p.from)
	d := b.create(t, p.at)
	t.Cleanup(func() { d.drop(t) })
	return d
}

// share finds or starts the server of the process.
func (b *brand) share() (err error) {
	p := &b.process
	if dsn := os.Getenv(b.need.Variable); dsn != "" {
		if p.at, err = b.parse(dsn); err == nil {
			p.from, err = b.describe(b.need.Variable, p.at)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", b.need.Variable, err)
		}
		return err
	}
	if p.server, err = b.install(); err == nil {
		p.at = p.server.at
		p.from, err = b.describe(p.server.program, p.at)
		return err
	}
	if !errors.Is(err, deps.ErrMissing) || !tier.IsAll() {
		return err
	}
	host, port, failed := startContainer(b.image)
	if failed != nil {
		return errors.Join(err, failed)
	}
	p.at = account{host: host, port: port, user: b.image.user, password: password}
	err = natstest.Await(natstest.Patience, "the container", func() error { _, err := b.version(p.at); return err })
	if err == nil {
		p.from, err = b.describe("container "+b.image.name, p.at)
	}
	return err
}

// image is a container image of a server.
type image struct {
	name string
	port string // as in 3306/tcp
	env  map[string]string
	cmd  []string
	user string // the administrator
}

// describe logs the server's version and origin. It retries until the server
// answers, which may be busy; but not if the connection is refused or the
// password wrong.
func (b *brand) describe(from string, at account) (string, error) {
	var version string
	err := natstest.Await(natstest.Patience, "the server's version", func() (err error) {
		version, err = b.version(at)
		if errors.Is(err, syscall.ECONNREFUSED) || isRefused(err) {
			return fmt.Errorf("%w: %w", natstest.ErrFinal, err)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if !strings.Contains(version, b.name) && !strings.Contains(version, "MariaDB") {
		version = b.name + " " + version
	}
	return version + " (" + from + ")", nil
}

// isRefused reports whether a server does not let this user in.
func isRefused(err error) bool {
	if my := new(mysql.MySQLError); errors.As(err, &my) {
		return my.Number == 1044 || my.Number == 1045 // access denied
	}
	pg := new(pgconn.PgError)
	return errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "28") || pg.Code == "3D000") // or no such database
}
