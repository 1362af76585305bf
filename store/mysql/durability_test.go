package mysql

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/tier"
)

// Settings that lose commits in a crash are named, whoever asks, as they are at that moment.
func TestUnsafeSettings(t *testing.T) {
	tier.All(t)
	for _, test := range []struct {
		name  string
		args  []string
		cases map[string]map[string]string // SET GLOBAL …; and what is unsafe then
	}{
		{"with a binary log", []string{"--log-bin=binlog", "--server-id=1"}, map[string]map[string]string{
			"innodb_flush_log_at_trx_commit=1, GLOBAL sync_binlog=1":   {},
			"innodb_flush_log_at_trx_commit=0, GLOBAL sync_binlog=1":   {"innodb_flush_log_at_trx_commit": "0"},
			"innodb_flush_log_at_trx_commit=1, GLOBAL sync_binlog=0":   {"sync_binlog": "0"},
			"innodb_flush_log_at_trx_commit=2, GLOBAL sync_binlog=100": {"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "100"},
		}},
		{"without", []string{"--skip-log-bin"}, map[string]map[string]string{
			"innodb_flush_log_at_trx_commit=1, GLOBAL sync_binlog=0": {},
			"innodb_flush_log_at_trx_commit=2, GLOBAL sync_binlog=0": {"innodb_flush_log_at_trx_commit": "2"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := dbtest.StartMySQLWith(t, test.args...)
			counting(t, srv.DB, official)
			srv.Exec(t, "CREATE USER app@'%' IDENTIFIED BY 'pw'", "GRANT SELECT ON "+srv.Name()+".leaf_alloc TO app@'%'")
			s, err := Open(srv.DSNFor("app", "pw"), "leaf_alloc")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			for set, want := range test.cases {
				srv.Exec(t, "SET GLOBAL "+set)
				if got, unknown := leaftest.Unsafe(t, s); unknown || !maps.Equal(got, want) {
					t.Errorf("%s: unsafe is %v, unknown %v, want %v", set, got, unknown, want)
				}
			}
		})
	}
}

// A setting that the server does not know is no reason to refuse it, and neither is it safe.
func TestUnknownSetting(t *testing.T) {
	s := counting(t, dbtest.MySQL(t), official)
	missing := leaf.Setting{Name: "no_such_setting", Safe: []string{"1"}}
	err := s.withConnection(t.Context(), func(ctx context.Context, conn *sql.Conn) error {
		return leaf.CheckSettings([]leaf.Setting{missing, flushLog}, func(s leaf.Setting) (string, error) { return readSetting(ctx, conn, s) })
	})
	if !errors.Is(err, store.ErrSettingUnknown) || !strings.Contains(err.Error(), missing.Name) || errors.Is(err, store.ErrSetup) {
		t.Errorf("%v, want ErrSettingUnknown that names it", err)
	}
	closed := counting(t, dbtest.MySQL(t), official)
	_ = closed.Close()
	if err := closed.Durability(t.Context()); err == nil || errors.Is(err, store.ErrSettingUnknown) {
		t.Errorf("without a database: %v, want another error", err)
	}
}

// On a server where tables of the same letters are different, the one that is meant is looked
// at.
func TestEngineOfTheTableInThatSpelling(t *testing.T) {
	db := dbtest.MySQL(t)
	var folds bool
	if err := db.SQL().QueryRowContext(t.Context(), "SELECT @@lower_case_table_names").Scan(&folds); err != nil {
		t.Fatal(err)
	}
	if folds {
		t.Skip("the server takes them for one table")
	}
	counting(t, db, official)
	db.Exec(t, strings.Replace(strings.Replace(official, "leaf_alloc", "Leaf_alloc", 1), "InnoDB", "MEMORY", 1))
	for table, good := range map[string]bool{"leaf_alloc": true, "Leaf_alloc": false, db.Name() + ".leaf_alloc": true, db.Name() + ".Leaf_alloc": false} {
		s, err := Open(db.DSN(), table)
		if err != nil {
			t.Fatal(err)
		}
		var unsafe *store.UnsafeTableError
		if err := s.Check(t.Context()); (err == nil) != good || err != nil && !errors.As(err, &unsafe) {
			t.Errorf("%s: %v, want it accepted: %v", table, err, good)
		}
		_ = s.Close()
	}
}
