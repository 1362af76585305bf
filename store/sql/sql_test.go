package sql_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/idworker/idworker/store/sql"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) {
	sql.CallTimeout = natstest.Patience
	goleak.VerifyTestMain(m)
}

func TestMySQL(t *testing.T) {
	t.Parallel()
	mysqlSuite.run(t)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	postgresSuite.run(t)
}

// counting returns a new table with the tag order, starting at 1.
func counting(t *testing.T, db *dbtest.DB, create string) *sql.LeafTable {
	t.Helper()
	db.Exec(t, create, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10)")
	return leaftest.Open(t, db.DSN(), "leaf_alloc")
}

// Tables with different names are different tables: the name has the database.
func TestNames(t *testing.T) {
	const mysql, postgres = "mysql://u:p@tcp(h:1)/", "postgres://u:p@h:1/"
	for _, test := range []struct{ dsn, table, kind, name string }{
		{mysql + "leaf", "leaf_alloc", "mysql", "leaf.leaf_alloc"},
		{mysql + "copy", "leaf_alloc", "mysql", "copy.leaf_alloc"},
		{mysql + "leaf", "copy.leaf_alloc", "mysql", "copy.leaf_alloc"},
		{postgres + "leaf", "leaf_alloc", "postgres", "leaf.leaf_alloc"},
		{postgres + "copy", "leaf_alloc", "postgres", "copy.leaf_alloc"},
		{postgres + "leaf", "public.leaf_alloc", "postgres", "leaf.public.leaf_alloc"},
		{"postgresql://u:p@h:1/leaf", "leaf_alloc", "postgres", "leaf.leaf_alloc"},
	} {
		c, err := sql.Parse(test.dsn, test.table)
		if err != nil {
			t.Fatal(err)
		}
		if c.Kind() != test.kind || c.Name() != test.name || c.Server() != "u@h:1" {
			t.Errorf("%s in %s is %s %s at %s, want %s %s at u@h:1", test.table, test.dsn, c.Kind(), c.Name(), c.Server(), test.kind, test.name)
		}
		s, err := c.Open()
		if err != nil {
			t.Fatal(err)
		}
		if n := s.DB().Stats().MaxOpenConnections; n != sql.MaxConns {
			t.Errorf("%s opens up to %d connections, want %d", test.dsn, n, sql.MaxConns)
		}
		_ = s.Close()
	}
}

// A DSN of no dialect is refused, and not quoted.
func TestUnknownScheme(t *testing.T) {
	for _, dsn := range []string{"", "secret", "oracle://u:secret@h/db", "mysql:u:secret@h/db", "://secret", "MYSQL://u:secret@tcp(h:1)/db"} {
		if _, err := sql.Parse(dsn, "leaf_alloc"); !errors.Is(err, sql.ErrScheme) || strings.Contains(err.Error(), "secret") {
			t.Errorf("DSN %q: %v, want ErrScheme", dsn, err)
		}
	}
	if _, err := (sql.Config{}).Open(); !errors.Is(err, sql.ErrScheme) {
		t.Errorf("Open without a DSN: %v, want ErrScheme", err)
	}
}

// A listing may take any time while rows keep arriving.
func TestUntilSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, heard, cancel := sql.UntilSilent(t.Context())
		defer cancel()
		for range 100 {
			time.Sleep(sql.ListSilence - time.Millisecond)
			if ctx.Err() != nil {
				t.Fatalf("ended while rows arrived: %v", context.Cause(ctx))
			}
			heard()
		}
		time.Sleep(sql.ListSilence)
		synctest.Wait()
		if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("silence: %v, want an end as of a deadline", err)
		}
	})
}
