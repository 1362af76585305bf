package dbtest

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/idworker/idworker/testing/proxy"
)

// DB is an empty database, which is removed when the test ends.
type DB struct {
	kind *kind
	at   endpoint
	name string
	sql  *sql.DB
}

// endpoint is a server's address, and its administrator.
type endpoint struct {
	host, port     string
	user, password string
	params         string // of the DSN in the environment
}

// DSN is how store/mysql and store/postgres open the database, as its owner.
func (d *DB) DSN() string { return d.DSNFor(d.at.user, d.at.password) }

// DSNFor is the DSN for another user.
func (d *DB) DSNFor(user, password string) string {
	return d.kind.dsn(endpoint{d.at.host, d.at.port, user, password, d.at.params}, d.name)
}

// DSNVia is the DSN by way of a [proxy.Proxy].
func (d *DB) DSNVia(p *proxy.Proxy) string { return d.DSNForVia(d.at.user, d.at.password, p) }

// DSNForVia is the DSN for another user by way of a [proxy.Proxy].
func (d *DB) DSNForVia(user, password string, p *proxy.Proxy) string {
	host, port, _ := strings.Cut(p.Addr(), ":")
	return d.kind.dsn(endpoint{host, port, user, password, d.at.params}, d.name)
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

// MySQL returns an empty database on a MySQL or MariaDB server.
func MySQL(t testing.TB) *DB {
	t.Helper()
	return mysqlKind.shared(t)
}

// Postgres returns an empty database on a PostgreSQL server.
func Postgres(t testing.TB) *DB {
	t.Helper()
	return postgresKind.shared(t)
}

var databases atomic.Int64

// create makes an empty database on a server.
func (k *kind) create(t testing.TB, at endpoint) *DB {
	t.Helper()
	admin := k.open(t, k.dsn(at, k.adminDB))
	d := &DB{kind: k, at: at, name: fmt.Sprintf("idworker_test_%d_%d", os.Getpid(), databases.Add(1))}
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+d.name); err != nil {
		t.Fatalf("%s: create a database: %v", k.name, err)
	}
	_ = admin.Close()
	d.sql = k.open(t, k.dsn(at, d.name))
	return d
}

// drop removes the database again.
func (d *DB) drop(t testing.TB) {
	_ = d.sql.Close()
	admin := d.kind.open(t, d.kind.dsn(d.at, d.kind.adminDB))
	if _, err := admin.Exec("DROP DATABASE " + d.name + d.kind.dropForce); err != nil {
		t.Errorf("%s: drop the database: %v", d.kind.name, err)
	}
	_ = admin.Close()
}

// open makes a pool, which is closed when the test ends.
func (k *kind) open(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(k.driver, strings.TrimPrefix(dsn, "mysql://"))
	if err != nil {
		t.Fatalf("%s: %v", k.name, err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
