package mysql

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/leaf"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/dbtest/docker"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

func TestMain(m *testing.M) {
	leaf.CallTimeout = natstest.Patience
	dbtest.Containers = docker.Start
	goleak.VerifyTestMain(m)
}

var official = leaftest.MySQL.Shapes["official"]

var backend = leaftest.Backend{
	Database:   dbtest.MySQL,
	Start:      dbtest.StartMySQL,
	Open:       func(dsn, table string) (leaftest.Store, error) { return Open(dsn, table) },
	Rest:       func(addr, database string) string { return "mysql://tcp(" + addr + ")/" + database },
	Dialect:    leaftest.MySQL,
	IgnoreCase: official + " DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci",
	NoKey:      "CREATE TABLE leaf_alloc (biz_tag varchar(128), max_id bigint, step int)",
	Float:      "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id double NOT NULL, step int NOT NULL)",
	Narrow:     "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id int NOT NULL, step int NOT NULL)",
	Forgetful: map[string][2]string{
		"ENGINE=MEMORY": {strings.Replace(official, "InnoDB", "MEMORY", 1), "DROP TABLE leaf_alloc"},
		"ENGINE=MyISAM": {strings.Replace(official, "InnoDB", "MyISAM", 1), "DROP TABLE leaf_alloc"},
		"a view": {strings.Replace(official, "leaf_alloc", "leaf", 1) + "; CREATE VIEW leaf_alloc AS SELECT * FROM leaf",
			"DROP VIEW leaf_alloc; DROP TABLE leaf"},
	},
	NoDatabase: "information_schem",
	User: func(user, password, grant string) []string {
		name := "'" + user + "'@'%'"
		statements := []string{"CREATE USER " + name + " IDENTIFIED BY '" + password + "'"}
		if grant == "" { // something, else the database is closed to the user
			statements = append(statements, "GRANT SELECT ON other TO "+name)
		} else {
			statements = append(statements, "GRANT "+grant+" ON leaf_alloc TO "+name)
		}
		// So that an unknown database is one, and not one that is forbidden.
		statements = append(statements, "GRANT CREATE ON `information\\_schem`.* TO "+name)
		return append(statements, "DROP USER "+name)
	},
}

func TestStore(t *testing.T) { backend.Run(t) }

// counting returns a store on a new table with the tag order, from 1 on.
func counting(t *testing.T, db *dbtest.DB, create string) *Store {
	t.Helper()
	db.Exec(t, create, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10)")
	s, err := Open(db.DSN(), "leaf_alloc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// On a connection that has just reserved, a statement that matches nothing answers
// with the insert ID of the one before.
func TestInsertIDOfAnotherStatementIsNotUsed(t *testing.T) {
	s := counting(t, dbtest.MySQL(t), official)
	s.db.SetMaxOpenConns(1)
	for range 3 {
		if _, err := s.Reserve(t.Context(), "order", 10); err != nil {
			t.Fatal(err)
		}
		if seg, err := s.Reserve(t.Context(), "missing", 10); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("Reserve of a missing tag: %v, %v, want ErrNoTag", seg, err)
		}
	}
}

// With a trigger on the table, the server answers with no insert ID or with another:
// neither is mistaken for max_id.
func TestInsertIDBesideATriggerIsNotUsed(t *testing.T) {
	for _, trigger := range []string{
		"AFTER UPDATE ON leaf_alloc FOR EACH ROW INSERT INTO audit (n) VALUES (NEW.max_id)",
		"BEFORE UPDATE ON leaf_alloc FOR EACH ROW INSERT INTO audit (n) VALUES (NEW.max_id)",
		"AFTER UPDATE ON leaf_alloc FOR EACH ROW SET @last = LAST_INSERT_ID(555)",
		"BEFORE UPDATE ON leaf_alloc FOR EACH ROW UPDATE audit SET n = LAST_INSERT_ID(id + 5)",
		"BEFORE UPDATE ON leaf_alloc FOR EACH ROW SET NEW.max_id = NEW.max_id",
	} {
		db := dbtest.MySQL(t)
		s := counting(t, db, official)
		s.db.SetMaxOpenConns(1)
		if _, err := s.Reserve(t.Context(), "order", 10); err != nil {
			t.Fatal(err)
		}
		db.Exec(t, "CREATE TABLE audit (id bigint AUTO_INCREMENT PRIMARY KEY, n bigint) AUTO_INCREMENT=777000",
			"INSERT INTO audit (n) VALUES (1)", "CREATE TRIGGER audit "+trigger)
		for range 3 {
			if seg, err := s.Reserve(t.Context(), "order", 10); !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "trigger") {
				t.Errorf("%s: %v, %v, want ErrSetup", trigger, seg, err)
			}
		}
	}
}

// Neither the server's defaults nor the DSN can make a reservation that is not
// committed, or not strict.
func TestSessionDoesNotDependOnTheServersDefaults(t *testing.T) {
	tier.All(t)
	srv := dbtest.StartMySQL(t)
	s := counting(t, srv.DB, strings.Replace(official, "max_id bigint(20)", "max_id int", 1))
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
	for _, param := range []string{"autocommit=0", "AUTOCOMMIT=0", "sql_mode=''", "%40%40autocommit=0"} {
		if _, err := Open(srv.DSN()+"?"+param, "leaf_alloc"); err == nil || !strings.Contains(err.Error(), "malformed DSN") {
			t.Errorf("DSN with %s: %v, want an error", param, err)
		}
	}
}

// A replica, and a server after a failover, takes no writes.
func TestReadOnlyServer(t *testing.T) {
	tier.All(t)
	srv := dbtest.StartMySQL(t)
	counting(t, srv.DB, official)
	srv.Exec(t, "CREATE USER app@'%' IDENTIFIED BY 'pw'", fmt.Sprintf("GRANT SELECT, INSERT, UPDATE ON %s.* TO app@'%%'", srv.Name()),
		"SET GLOBAL read_only = 1")
	s, err := Open(srv.DSNFor("app", "pw"), "leaf_alloc")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if seg, err := s.Reserve(t.Context(), "order", 1); !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "primary") {
		t.Errorf("Reserve: %v, %v, want ErrSetup", seg, err)
	}
	srv.Exec(t, "SET GLOBAL read_only = 0")
	if seg, err := s.Reserve(t.Context(), "order", 1); err != nil || seg.First != 1 {
		t.Errorf("Reserve when the server takes writes again: %v, %v", seg, err)
	}
}

// Tables of the same name in two databases are two stores.
func TestNameTellsDatabasesApart(t *testing.T) {
	for _, test := range []struct{ database, table, want string }{
		{"leaf", "leaf_alloc", "leaf.leaf_alloc"}, {"copy", "leaf_alloc", "copy.leaf_alloc"}, {"leaf", "copy.leaf_alloc", "copy.leaf_alloc"},
	} {
		s, err := Open("mysql://u:p@tcp(h:1)/"+test.database, test.table)
		if err != nil {
			t.Fatal(err)
		}
		if s.Name() != test.want {
			t.Errorf("%s in %s is called %s, want %s", test.table, test.database, s.Name(), test.want)
		}
		_ = s.Close()
	}
}
