package dbtest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idworker/idworker/testing/deps"
	"github.com/idworker/idworker/testing/natstest"
)

// shared is the server of a kind that all tests of the process use.
type shared struct {
	once   sync.Once
	server Process // kept, for it lives only as long as its pipe
	at     endpoint
	from   string
	err    error
}

// shared returns an empty database on the server of the process.
func (k *kind) shared(t testing.TB) *DB {
	t.Helper()
	p := &k.process
	p.once.Do(func() {
		if dsn := os.Getenv(k.need.Variable); dsn != "" {
			if p.at, p.err = k.parse(dsn); p.err == nil {
				p.from, p.err = k.describe(k.need.Variable, p.at)
			}
			if p.err != nil {
				p.err = fmt.Errorf("%s: %w", k.need.Variable, p.err)
			}
			return
		}
		p.server, p.at, p.from, p.err = k.launch(nil)
	})
	if p.err != nil {
		k.need.Missing(t, p.err)
	}
	t.Logf("database: %s", p.from)
	d := k.create(t, p.at)
	t.Cleanup(func() { d.drop(t) })
	return d
}

// launch starts a server, from a binary or in a container, with additional
// arguments. It stops when the process ends, if not before.
func (k *kind) launch(args []string) (Process, endpoint, string, error) {
	p, at, from, err := launchBinary(k, args)
	if errors.Is(err, deps.ErrMissing) {
		missing := err
		if p, at, from, err = launchContainer(k, args); p == nil {
			return nil, endpoint{}, "", errors.Join(missing, err)
		}
	}
	if err != nil {
		return nil, endpoint{}, "", err
	}
	if from, err = k.describe(from, at); err != nil {
		p.Remove()
	}
	return p, at, from, err
}

// describe logs the server's version and origin. It retries until the server
// answers, which may be busy; but not if the connection is refused or the
// password wrong.
func (k *kind) describe(from string, at endpoint) (string, error) {
	var version string
	err := eventually(natstest.Patience, func() (err error) {
		version, err = k.version(at)
		if errors.Is(err, syscall.ECONNREFUSED) || isRefused(err) {
			return fatal{err}
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if !strings.Contains(version, k.name) && !strings.Contains(version, "MariaDB") {
		version = k.name + " " + version
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
