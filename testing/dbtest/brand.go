package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/idworker/idworker/testing/deps"
)

// brand is a kind of server, with all that differs between kinds.
type brand struct {
	name      string
	need      *deps.Need
	driver    string // of database/sql
	adminDB   string // a database that is always there
	dropForce string

	image image

	fill  func(program, dir string) []string // commands that make the data folder
	serve func(program, dir, port string) []string

	dsn   func(at account, db string) string
	parse func(dsn string) (account, error)

	process shared
}

// password is that of the servers that are started here.
const password = "Canary-dbtest-7f3a"

var mysqlServer = &brand{
	name:    "MySQL",
	need:    deps.MySQL,
	driver:  "mysql",
	adminDB: "",

	image: image{
		name: "mysql:8.4", port: "3306/tcp", user: "root",
		env: map[string]string{"MYSQL_ROOT_PASSWORD": password, "MYSQL_ROOT_HOST": "%"},
		cmd: []string{"--innodb-flush-log-at-trx-commit=2"},
	},

	fill:  fillMySQL,
	serve: serveMySQL,

	dsn: func(at account, db string) string {
		return fmt.Sprintf("mysql://%s:%s@tcp(%s:%s)/%s%s", at.user, at.password, at.host, at.port, db, at.params)
	},
	parse: func(dsn string) (account, error) {
		rest, ok := strings.CutPrefix(dsn, "mysql://")
		config, err := mysql.ParseDSN(rest)
		if !ok || err != nil || config.Net != "tcp" {
			return account{}, fmt.Errorf("expected mysql://user:password@tcp(host:port)/")
		}
		host, port, _ := strings.Cut(config.Addr, ":")
		_, params, has := strings.Cut(rest[strings.LastIndex(rest, "/"):], "?")
		if has {
			params = "?" + params
		}
		return account{host, port, config.User, config.Passwd, params}, nil
	},
}

var postgresServer = &brand{
	name:      "PostgreSQL",
	need:      deps.Postgres,
	driver:    "pgx",
	adminDB:   "postgres",
	dropForce: " WITH (FORCE)",

	image: image{
		name: "postgres:17-alpine", port: "5432/tcp", user: "postgres",
		env: map[string]string{"POSTGRES_PASSWORD": password},
		cmd: []string{"postgres", "-c", "fsync=off"},
	},

	fill:  fillPostgres,
	serve: servePostgres,

	dsn: func(at account, db string) string {
		u := url.URL{Scheme: "postgres", User: url.UserPassword(at.user, at.password), Host: at.host + ":" + at.port, Path: "/" + db}
		return u.String() + at.params
	},
	parse: func(dsn string) (account, error) {
		u, err := url.Parse(dsn)
		if err != nil || u.Hostname() == "" || u.User == nil {
			return account{}, fmt.Errorf("expected postgres://user:password@host:port/database")
		}
		at := account{host: u.Hostname(), port: u.Port(), user: u.User.Username()}
		at.password, _ = u.User.Password()
		if at.port == "" {
			at.port = "5432"
		}
		if u.RawQuery != "" {
			at.params = "?" + u.RawQuery
		}
		return at, nil
	},
}

// version queries a server's version; an error means that it is not ready.
func (b *brand) version(at account) (version string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	db, err := sql.Open(b.driver, strings.TrimPrefix(b.dsn(at, b.adminDB), "mysql://"))
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	err = db.QueryRowContext(ctx, "SELECT version()").Scan(&version)
	if b == mysqlServer && err == nil && !strings.Contains(version, "MariaDB") {
		version = "MySQL " + version
	}
	return version, err
}
