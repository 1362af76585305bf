package postgres

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// Settings that lose commits in a crash are named, as they are in the sessions of the store.
func TestUnsafeSettings(t *testing.T) {
	tier.All(t)
	for fsync, unsafe := range map[string]map[string]string{"on": {}, "off": {"fsync": "off"}} {
		t.Run("fsync "+fsync, func(t *testing.T) {
			srv := dbtest.StartPostgresWith(t, "-c", "fsync="+fsync)
			counting(t, srv.DB)
			srv.Exec(t, "CREATE USER app PASSWORD 'pw'")
			both := maps.Clone(unsafe)
			both["synchronous_commit"] = "off"
			for _, test := range []struct {
				set  string
				want map[string]string
			}{
				{"SELECT 1", unsafe},
				{"ALTER SYSTEM SET synchronous_commit = off", both},
				{"ALTER SYSTEM SET synchronous_commit = local", unsafe},
				{"ALTER DATABASE " + srv.Name() + " SET synchronous_commit = off", both},
				{"ALTER DATABASE " + srv.Name() + " SET synchronous_commit = on", unsafe},
				{"ALTER USER app SET synchronous_commit = off", both},
				{"ALTER USER app RESET synchronous_commit", unsafe},
				{"ALTER SYSTEM SET full_page_writes = off", unsafe},
			} {
				srv.Exec(t, test.set, "SELECT pg_reload_conf()")
				eventuallyUnsafe(t, srv, test.set, test.want)
			}
		})
	}
}

// eventuallyUnsafe asks with new connections until a setting has taken effect: the server reads
// them after it has answered.
func eventuallyUnsafe(t *testing.T, srv *dbtest.Server, set string, want map[string]string) {
	t.Helper()
	natstest.Eventually(t, set+" to be reported", func() bool {
		s, err := Open(srv.DSNFor("app", "pw"), "leaf_alloc")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		got, unknown := leaftest.Unsafe(t, s)
		return !unknown && maps.Equal(got, want)
	})
}

// Who may not read a setting knows nothing of it: that is neither safe nor unsafe.
func TestUnknownSetting(t *testing.T) {
	tier.All(t)
	srv := dbtest.StartPostgres(t)
	counting(t, srv.DB)
	srv.Exec(t, "CREATE USER app PASSWORD 'pw'", "REVOKE EXECUTE ON FUNCTION pg_catalog.current_setting(text) FROM public")
	s, err := Open(srv.DSNFor("app", "pw"), "leaf_alloc")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if got, unknown := leaftest.Unsafe(t, s); !unknown || len(got) > 0 {
		t.Errorf("unsafe is %v, unknown %v", got, unknown)
	}
	srv.Kill()
	if err := s.Durability(t.Context()); err == nil || errors.Is(err, store.ErrSettingUnknown) {
		t.Errorf("without a database: %v, want another error", err)
	}
}

// A temporary table hides the one that is meant, and is gone with its connection.
func TestTemporaryTable(t *testing.T) {
	db := dbtest.Postgres(t)
	s := counting(t, db)
	config := s.pool.Config()
	config.MaxConns = 1
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE TEMPORARY TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint, step int)")
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	hidden := &Store{pool: pool, table: s.table, name: s.name}
	var unsafe *store.UnsafeTableError
	if err := hidden.Check(t.Context()); !errors.As(err, &unsafe) || unsafe.Kind != "TEMPORARY (leaf_alloc)" {
		t.Errorf("Check: %v, want an UnsafeTableError", err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check of the table itself: %v", err)
	}
}
