package postgres

import (
	"errors"
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

var official = leaftest.Postgres.Shapes["official"]

var backend = leaftest.Backend{
	Database: dbtest.Postgres,
	Start:    dbtest.StartPostgres,
	Open:     func(dsn, table string) (leaftest.Store, error) { return Open(dsn, table) },
	Rest:     func(addr, database string) string { return "postgres://" + addr + "/" + database },
	Dialect:  leaftest.Postgres,
	IgnoreCase: "CREATE COLLATION IF NOT EXISTS nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);" +
		strings.Replace(official, "varchar(128)", "varchar(128) COLLATE nocase", 1),
	NoKey:  "CREATE TABLE leaf_alloc (biz_tag varchar(128), max_id bigint, step int)",
	Float:  "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id double precision NOT NULL, step int NOT NULL)",
	Narrow: "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id int NOT NULL, step int NOT NULL)",
	Forgetful: map[string][2]string{
		"UNLOGGED": {strings.Replace(official, "TABLE", "UNLOGGED TABLE", 1), "DROP TABLE leaf_alloc"},
		"UNLOGGED (part)": {"CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint, step int) PARTITION BY LIST (biz_tag);" +
			"CREATE UNLOGGED TABLE part PARTITION OF leaf_alloc DEFAULT", "DROP TABLE leaf_alloc"},
		"UNLOGGED (heir)": {official + "; CREATE UNLOGGED TABLE heir () INHERITS (leaf_alloc)", "DROP TABLE heir; DROP TABLE leaf_alloc"},
		"a view": {strings.Replace(official, "leaf_alloc", "leaf", 1) + "; CREATE VIEW leaf_alloc AS SELECT * FROM leaf",
			"DROP VIEW leaf_alloc; DROP TABLE leaf"},
	},
	NoDatabase: "no_such_database",
	User: func(user, password, grant string) []string {
		statements := []string{"CREATE USER " + user + " PASSWORD '" + password + "'"}
		if grant != "" {
			statements = append(statements, "GRANT "+grant+" ON leaf_alloc TO "+user)
		}
		return append(statements, "DROP OWNED BY "+user+"; DROP USER "+user)
	},
}

func TestStore(t *testing.T) { backend.Run(t) }

// counting returns a store on a new table with the tag order, from 1 on.
func counting(t *testing.T, db *dbtest.DB) *Store {
	t.Helper()
	db.Exec(t, official, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10)")
	s, err := Open(db.DSN(), "leaf_alloc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// The row arrives before the commit; if the commit fails, the range is not ours.
func TestCommitThatFailsIsNoReservation(t *testing.T) {
	db := dbtest.Postgres(t)
	s := counting(t, db)
	db.Exec(t, "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$",
		"CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON leaf_alloc DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()")
	if seg, err := s.Reserve(t.Context(), "order", 10); err == nil {
		t.Errorf("got %v although the commit failed", seg)
	}
	db.Exec(t, "DROP TRIGGER late ON leaf_alloc")
	if seg, err := s.Reserve(t.Context(), "order", 10); err != nil || seg.First != 1 {
		t.Errorf("got %v, %v, want [1, 11)", seg, err)
	}
}

// Even where commits are acknowledged before they are on disk by default, ours are not.
func TestAcknowledgedReservationSurvivesAKill(t *testing.T) {
	tier.All(t)
	srv := dbtest.StartPostgres(t)
	s := counting(t, srv.DB)
	srv.Exec(t, "ALTER DATABASE "+srv.Name()+" SET synchronous_commit = off", "ALTER SYSTEM SET wal_writer_delay = '10s'", "SELECT pg_reload_conf()")
	end := int64(1)
	for range 3 {
		for range 20 {
			seg, err := s.Reserve(t.Context(), "order", 10)
			for err != nil { // the connections of before the kill
				seg, err = s.Reserve(t.Context(), "order", 10)
			}
			if seg.First < end {
				t.Fatalf("DUPLICATE: got %v after all below %d was handed out", seg, end)
			}
			end = seg.End
		}
		srv.Kill()
		srv.Restart()
	}
}

// A standby takes no writes.
func TestReadOnlyServer(t *testing.T) {
	db := dbtest.Postgres(t)
	counting(t, db)
	db.Exec(t, "ALTER DATABASE "+db.Name()+" SET default_transaction_read_only = on")
	s, err := Open(db.DSN(), "leaf_alloc")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if seg, err := s.Reserve(t.Context(), "order", 1); !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "primary") {
		t.Errorf("Reserve: %v, %v, want ErrSetup", seg, err)
	}
}

// Tables of the same name in two databases are two stores.
func TestNameTellsDatabasesApart(t *testing.T) {
	for _, test := range []struct{ database, table, want string }{
		{"leaf", "leaf_alloc", "leaf.leaf_alloc"}, {"copy", "leaf_alloc", "copy.leaf_alloc"}, {"leaf", "public.leaf_alloc", "leaf.public.leaf_alloc"},
	} {
		s, err := Open("postgres://u:p@h:1/"+test.database, test.table)
		if err != nil {
			t.Fatal(err)
		}
		if s.Name() != test.want {
			t.Errorf("%s in %s is called %s, want %s", test.table, test.database, s.Name(), test.want)
		}
		_ = s.Close()
	}
}
