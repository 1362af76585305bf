package sql_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/sql"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/testing/tier"
)

var officialMySQL = leaftest.MySQL.Shapes["official"]

// A statement that matches nothing returns the insert ID of the previous
// statement, which must not pass for max_id.
func TestInsertIDOfAnotherStatementIsNotUsed(t *testing.T) {
	s := counting(t, dbtest.MySQL(t), officialMySQL)
	s.DB().SetMaxOpenConns(1)
	for range 3 {
		if _, err := s.Reserve(t.Context(), "order", 10); err != nil {
			t.Fatal(err)
		}
		if seg, err := s.Reserve(t.Context(), "missing", 10); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("Reserve of a missing tag: %v, %v, want ErrNoTag", seg, err)
		}
	}
}

// A trigger on UPDATE, except an empty one, makes the server return no insert
// ID, or another, which must not pass for max_id. It is found when the table is
// opened, also by users who cannot see it; a trigger that appears later costs
// one range. No other try burns numbers, and service resumes without it.
func TestTriggerOnUpdate(t *testing.T) {
	for _, trigger := range []string{
		"AFTER UPDATE ON leaf_alloc FOR EACH ROW INSERT INTO audit (n) VALUES (NEW.max_id)",
		"BEFORE UPDATE ON leaf_alloc FOR EACH ROW INSERT INTO audit (n) VALUES (NEW.max_id)",
		"AFTER UPDATE ON leaf_alloc FOR EACH ROW SET @last = LAST_INSERT_ID(555)",
		"BEFORE UPDATE ON leaf_alloc FOR EACH ROW UPDATE audit SET n = LAST_INSERT_ID(id + 5)",
		"BEFORE UPDATE ON leaf_alloc FOR EACH ROW SET NEW.max_id = NEW.max_id",
		"AFTER UPDATE ON leaf_alloc FOR EACH ROW IF NEW.max_id > OLD.max_id THEN INSERT INTO audit (n) VALUES (1); END IF",
	} {
		db := dbtest.MySQL(t)
		s := counting(t, db, officialMySQL)
		s.DB().SetMaxOpenConns(1)
		db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('other', 1, 10)")
		if _, err := s.Reserve(t.Context(), "order", 10); err != nil {
			t.Fatal(err)
		}
		db.Exec(t, "CREATE TABLE audit (id bigint AUTO_INCREMENT PRIMARY KEY, n bigint) AUTO_INCREMENT=777000",
			"INSERT INTO audit (n) VALUES (1)", "CREATE TRIGGER audit "+trigger)
		name := db.Name() + "_t"
		user := leaftest.MySQL.User(name, "pw", "SELECT, INSERT, UPDATE")
		db.Exec(t, "CREATE TABLE other (n int)")
		db.Exec(t, user[:len(user)-1]...)
		opened := leaftest.Open(t, db.DSNFor(name, "pw"), "leaf_alloc")
		refused := func(call string, err error) {
			t.Helper()
			if !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "trigger") {
				t.Errorf("%s with %s: %v, want ErrSetup", call, trigger, err)
			}
		}
		refused("Check", opened.Check(t.Context()))
		for _, tag := range []string{"order", "order", "other", "order"} { // the first burns a range
			for _, handle := range []*sql.LeafTable{s, opened} {
				_, err := handle.Reserve(t.Context(), tag, 10)
				refused("Reserve of "+tag, err)
				refused("Probe", handle.Probe(t.Context()))
			}
		}
		refused("CreateTag", opened.CreateTag(t.Context(), store.Tag{Name: "new", Step: 1, Next: 1}))
		db.Exec(t, "DROP TRIGGER audit", user[len(user)-1])
		if seg, err := s.Reserve(t.Context(), "order", 10); err != nil || seg.First != 21 {
			t.Errorf("Reserve without %s: %v, %v, want [21, 31)", trigger, seg, err)
		}
		if seg, err := s.Reserve(t.Context(), "other", 10); err != nil || seg.First != 1 {
			t.Errorf("Reserve without %s: %v, %v, want [1, 11)", trigger, seg, err)
		}
	}
}

// pt-online-schema-change keeps a copy of the table equal by triggers, and swaps
// the two. The swap repeats no ID, of Leaf's servers either, and reservations
// resume with the new table.
func TestOnlineSchemaChange(t *testing.T) {
	db := dbtest.MySQL(t)
	s := counting(t, db, officialMySQL)
	var ledger order.Ledger
	var ours, leafs atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		for ctx.Err() == nil {
			if seg, err := s.Reserve(ctx, "order", 7); err == nil {
				ledger.AddSegment("order", 7, seg)
				ours.Add(1)
			}
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			if seg, step, err := leaftest.MySQL.Segment(ctx, db.SQL(), "order"); err == nil {
				ledger.AddSegment("order", step, seg)
				leafs.Add(1)
			}
		}
	})
	more := func(of string, n *atomic.Int64) {
		t.Helper()
		target := n.Load() + 50
		natstest.Eventually(t, "segments of "+of, func() bool { return n.Load() >= target })
	}
	more("ours", &ours)
	db.Exec(t, "CREATE TABLE _new LIKE leaf_alloc", "ALTER TABLE _new ADD owner varchar(20)",
		"CREATE TRIGGER del AFTER DELETE ON leaf_alloc FOR EACH ROW DELETE IGNORE FROM _new WHERE biz_tag <=> OLD.biz_tag",
		"CREATE TRIGGER upd AFTER UPDATE ON leaf_alloc FOR EACH ROW REPLACE INTO _new (biz_tag, max_id, step) VALUES (NEW.biz_tag, NEW.max_id, NEW.step)",
		"CREATE TRIGGER ins AFTER INSERT ON leaf_alloc FOR EACH ROW REPLACE INTO _new (biz_tag, max_id, step) VALUES (NEW.biz_tag, NEW.max_id, NEW.step)")
	more("Leaf beside triggers", &leafs)
	db.Exec(t, "INSERT IGNORE INTO _new (biz_tag, max_id, step) SELECT biz_tag, max_id, step FROM leaf_alloc LOCK IN SHARE MODE")
	more("Leaf before the swap", &leafs)
	db.Exec(t, "RENAME TABLE leaf_alloc TO _old, _new TO leaf_alloc", "DROP TABLE _old")
	more("ours after the swap", &ours)
	more("Leaf after the swap", &leafs)
	stop()
	wg.Wait()
	ledger.Check(t)
}

// A table without rows shows no trigger, until its first row is there.
func TestTriggerOnAnEmptyTable(t *testing.T) {
	db := dbtest.MySQL(t)
	db.Exec(t, officialMySQL, "CREATE TRIGGER touch BEFORE UPDATE ON leaf_alloc FOR EACH ROW SET NEW.update_time = NOW()")
	s := leaftest.Open(t, db.DSN(), "leaf_alloc")
	if err := errors.Join(s.Check(t.Context()), s.CreateTag(t.Context(), store.Tag{Name: "order", Step: 10, Next: 1})); err != nil {
		t.Fatal(err)
	}
	if seg, err := s.Reserve(t.Context(), "order", 10); !errors.Is(err, store.ErrSetup) {
		t.Errorf("Reserve: %v, %v, want ErrSetup", seg, err)
	}
	if row, err := s.Find(t.Context(), "order"); err != nil || row.Next != 1 {
		t.Errorf("the row is %v, %v, was at 1", row, err)
	}
}

// Triggers that leave the insert ID alone, and rows without a proper name or
// number, are no obstacle.
func TestHarmlessTriggersAndRows(t *testing.T) {
	db := dbtest.MySQL(t)
	db.Exec(t, "CREATE TABLE leaf_alloc (biz_tag varbinary(128), max_id bigint, step int)",
		"INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('null', NULL, 10), ('zero', 0, 10), (0xFF, 1, 10), (NULL, 1, 10), ('order', 1, 10)",
		"CREATE TRIGGER empty AFTER UPDATE ON leaf_alloc FOR EACH ROW BEGIN END",
		"CREATE TRIGGER inserted AFTER INSERT ON leaf_alloc FOR EACH ROW SET @n = NEW.max_id",
		"CREATE TRIGGER deleted AFTER DELETE ON leaf_alloc FOR EACH ROW SET @n = OLD.max_id")
	s := leaftest.Open(t, db.DSN(), "leaf_alloc")
	if err := errors.Join(s.Check(t.Context()), s.Probe(t.Context())); err != nil {
		t.Error(err)
	}
	for tag, want := range map[string]error{"null": store.ErrCorrupt, "zero": store.ErrCorrupt, "none": store.ErrNoTag} {
		if seg, err := s.Reserve(t.Context(), tag, 10); !errors.Is(err, want) {
			t.Errorf("Reserve of %s: %v, %v, want %v", tag, seg, err, want)
		}
	}
	if seg, err := s.Reserve(t.Context(), "order", 10); err != nil || seg.First != 1 {
		t.Errorf("Reserve: %v, %v, want [1, 11)", seg, err)
	}
}

// Neither the server's defaults nor the DSN can make a reservation uncommitted
// or not strict.
func TestSessionDoesNotDependOnTheServersDefaults(t *testing.T) {
	tier.All(t)
	srv := dbtest.StartMySQL(t)
	s := counting(t, srv.DB, strings.Replace(officialMySQL, "max_id bigint(20)", "max_id int", 1))
	srv.Exec(t, "SET GLOBAL autocommit = 0", "SET GLOBAL sql_mode = ''")
	if seg, err := s.Reserve(t.Context(), "order", 10); err != nil || seg.First != 1 {
		t.Fatalf("Reserve: %v, %v", seg, err)
	}
	var committed int64
	if err := srv.SQL().QueryRowContext(t.Context(), "SELECT max_id FROM leaf_alloc").Scan(&committed); err != nil || committed != 11 {
		t.Errorf("max_id is %d for others, %v, want 11", committed, err)
	}
	if seg, err := s.Reserve(t.Context(), "order", 1<<31); !errors.Is(err, store.ErrExhausted) {
		t.Errorf("Reserve of more than the column holds: %v, %v, want ErrExhausted", seg, err)
	}
}

// A user or a server that requires TLS refuses other connections,
// MariaDB as it refuses a wrong password. Each error names the setting.
func TestRequiredTLSIsNamed(t *testing.T) {
	tier.All(t)
	srv := dbtest.StartMySQL(t)
	srv.Exec(t, "CREATE USER 'tls'@'%' IDENTIFIED BY 'secret' REQUIRE SSL", "CREATE USER 'plain'@'%' IDENTIFIED BY 'secret'")
	for user, setting := range map[string]string{"tls": "OFF", "plain": "ON"} {
		config, err := sql.Parse(srv.DSNFor(user, "secret"), "leaf_alloc")
		if err != nil {
			t.Fatal(err)
		}
		table, err := config.Open()
		if err != nil {
			t.Fatal(err)
		}
		srv.Exec(t, "SET GLOBAL require_secure_transport = "+setting)
		err = table.Check(t.Context())
		srv.Exec(t, "SET GLOBAL require_secure_transport = OFF")
		if !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "add ?tls=true") {
			t.Errorf("%s: %v", user, err)
		}
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The DSN cannot set session variables.
func TestSessionVariablesInTheDSN(t *testing.T) {
	for _, param := range []string{"autocommit=0", "AUTOCOMMIT=0", "sql_mode=''", "%40%40autocommit=0"} {
		if _, err := sql.Parse("mysql://u:p@tcp(h:1)/db?"+param, "leaf_alloc"); err == nil || !strings.Contains(err.Error(), "malformed DSN") {
			t.Errorf("DSN with %s: %v, want an error", param, err)
		}
	}
}

// A replica, and a server after a failover, is read-only.
func TestReadOnlyMySQL(t *testing.T) {
	tier.All(t)
	srv := dbtest.StartMySQL(t)
	counting(t, srv.DB, officialMySQL)
	srv.Exec(t, "CREATE USER app@'%' IDENTIFIED BY 'pw'", fmt.Sprintf("GRANT SELECT, INSERT, UPDATE ON %s.* TO app@'%%'", srv.Name()),
		"SET GLOBAL read_only = 1")
	s := leaftest.Open(t, srv.DSNFor("app", "pw"), "leaf_alloc")
	if seg, err := s.Reserve(t.Context(), "order", 1); !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "primary") {
		t.Errorf("Reserve: %v, %v, want ErrSetup", seg, err)
	}
	srv.Exec(t, "SET GLOBAL read_only = 0")
	if seg, err := s.Reserve(t.Context(), "order", 1); err != nil || seg.First != 1 {
		t.Errorf("Reserve when the server takes writes again: %v, %v", seg, err)
	}
}

// Settings that lose commits in a crash are reported with their present value.
func TestUnsafeSettingsOfMySQL(t *testing.T) {
	tier.All(t)
	for _, test := range []struct {
		name  string
		args  []string
		cases map[string]map[string]string // SET GLOBAL …; and the unsafe settings then
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
			srv := dbtest.StartMySQL(t, test.args...)
			counting(t, srv.DB, officialMySQL)
			srv.Exec(t, "CREATE USER app@'%' IDENTIFIED BY 'pw'", "GRANT SELECT ON "+srv.Name()+".leaf_alloc TO app@'%'")
			s := leaftest.Open(t, srv.DSNFor("app", "pw"), "leaf_alloc")
			for set, want := range test.cases {
				srv.Exec(t, "SET GLOBAL "+set)
				if got, unknown := unsafe(t, s); unknown || !maps.Equal(got, want) {
					t.Errorf("%s: unsafe is %v, unknown %v, want %v", set, got, unknown, want)
				}
			}
		})
	}
}

// An unsupported setting does not make the server unusable, but is not safe
// either.
func TestUnknownSettingOfMySQL(t *testing.T) {
	const missing = "no_such_setting"
	s := counting(t, dbtest.MySQL(t), officialMySQL).WithSetting(missing)
	if err := s.Durability(t.Context()); !errors.Is(err, store.ErrSettingUnknown) || !strings.Contains(err.Error(), missing) || errors.Is(err, store.ErrSetup) {
		t.Errorf("%v, want ErrSettingUnknown that names it", err)
	}
	_ = s.Close()
	if err := s.Durability(t.Context()); err == nil || errors.Is(err, store.ErrSettingUnknown) {
		t.Errorf("without a database: %v, want another error", err)
	}
}

// On a server with case-sensitive table names, Check examines the right table
// of two.
func TestEngineOfTheTableInThatSpelling(t *testing.T) {
	db := dbtest.MySQL(t)
	var folds bool
	if err := db.SQL().QueryRowContext(t.Context(), "SELECT @@lower_case_table_names").Scan(&folds); err != nil {
		t.Fatal(err)
	}
	if folds {
		t.Skip("the server takes them for one table")
	}
	counting(t, db, officialMySQL)
	db.Exec(t, strings.Replace(strings.Replace(officialMySQL, "leaf_alloc", "Leaf_alloc", 1), "InnoDB", "MEMORY", 1))
	for table, good := range map[string]bool{"leaf_alloc": true, "Leaf_alloc": false, db.Name() + ".leaf_alloc": true, db.Name() + ".Leaf_alloc": false} {
		var unsafe *store.UnsafeTableError
		if err := leaftest.Open(t, db.DSN(), table).Check(t.Context()); (err == nil) != good || err != nil && !errors.As(err, &unsafe) {
			t.Errorf("%s: %v, want it accepted: %v", table, err, good)
		}
	}
}

// An error that lasts until an administrator acts is no outage: it names the
// remedy.
func TestSettingsThatRefuseEachUpdate(t *testing.T) {
	for code, remedy := range map[int]string{
		1665: "binlog_format to ROW", 3098: "a primary key", 1820: "password has expired", 1862: "password has expired",
		3118: "UNLOCK", 4151: "UNLOCK", 1129: "FLUSH HOSTS",
	} {
		db := dbtest.MySQL(t)
		s := counting(t, db, officialMySQL)
		db.Exec(t, fmt.Sprintf("CREATE TRIGGER refuses BEFORE UPDATE ON leaf_alloc FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = 'from a test'", code))
		_, err := s.Reserve(t.Context(), "order", 10)
		if !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), remedy) || !strings.Contains(err.Error(), "from a test") {
			t.Errorf("error %d: %v, want ErrSetup with %q", code, err, remedy)
		}
	}
}
