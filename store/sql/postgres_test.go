package sql_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/sql"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

var officialPostgres = leaftest.Postgres.Shapes["official"]

// The row arrives before the commit. If the commit fails, the range is not
// reserved, and the tag not created.
func TestCommitThatFailsIsNoReservation(t *testing.T) {
	db := dbtest.Postgres(t)
	s := counting(t, db, officialPostgres)
	db.Exec(t, "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$",
		"CREATE CONSTRAINT TRIGGER late AFTER INSERT OR UPDATE ON leaf_alloc DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()")
	if seg, err := s.Reserve(t.Context(), "order", 10); err == nil {
		t.Errorf("got %v although the commit failed", seg)
	}
	if err := s.CreateTag(t.Context(), store.Tag{Name: "new", Step: 1, Next: 1}); err == nil {
		t.Error("created a tag although the commit failed")
	}
	if err := s.Raise(t.Context(), "order", 10); err == nil {
		t.Error("raised a tag although the commit failed")
	}
	db.Exec(t, "DROP TRIGGER late ON leaf_alloc")
	if seg, err := s.Reserve(t.Context(), "order", 10); err != nil || seg.First != 1 {
		t.Errorf("got %v, %v, want [1, 11)", seg, err)
	}
}

// A reservation is on disk when it is acknowledged, even where the default
// acknowledges commits earlier.
func TestAcknowledgedReservationSurvivesAKill(t *testing.T) {
	tier.All(t)
	srv := dbtest.StartPostgres(t)
	s := counting(t, srv.DB, officialPostgres)
	srv.Exec(t, "ALTER DATABASE "+srv.Name()+" SET synchronous_commit = off", "ALTER SYSTEM SET wal_writer_delay = '10s'", "SELECT pg_reload_conf()")
	end := int64(1)
	for range 3 {
		for range 20 {
			seg, err := s.Reserve(t.Context(), "order", 10)
			for err != nil { // connections from before the kill
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

// A standby is read-only.
func TestReadOnlyPostgres(t *testing.T) {
	db := dbtest.Postgres(t)
	counting(t, db, officialPostgres)
	db.Exec(t, "ALTER DATABASE "+db.Name()+" SET default_transaction_read_only = on")
	s := leaftest.Open(t, db.DSN(), "leaf_alloc")
	if seg, err := s.Reserve(t.Context(), "order", 1); !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "primary") {
		t.Errorf("Reserve: %v, %v, want ErrSetup", seg, err)
	}
}

// A DSN parameter that the server does not support is an ErrSetup.
func TestParameterThatTheServerRefuses(t *testing.T) {
	dsn := dbtest.Postgres(t).DSN()
	separator := "?"
	if strings.Contains(dsn, separator) {
		separator = "&"
	}
	s := leaftest.Open(t, dsn+separator+"no_such_parameter=1", "leaf_alloc")
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "no_such_parameter") {
		t.Errorf("Check: %v, want ErrSetup that names the parameter", err)
	}
}

// A password with an unescaped special character may be parsed as a host, a
// database or a parameter, which are not treated as secrets. Such a DSN is
// refused.
func TestPasswordThatIsParsedAsSomethingElse(t *testing.T) {
	for _, dsn := range []string{"postgres://u:1/secret@h:2/db", "postgres://u:p@secret@h:2/db", "postgres://u:p@h/db?user=a&secret@h=1"} {
		if c, err := sql.Parse(dsn, "leaf_alloc"); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("DSN %s: %v as %s at %s, want an error without the password", dsn, err, c.Name(), c.Server())
		}
	}
}

// A type that ignores case must not make two tags share a row.
func TestTypeThatIgnoresCase(t *testing.T) {
	db := dbtest.Postgres(t)
	var there bool
	if err := db.SQL().QueryRowContext(t.Context(), "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'citext')").Scan(&there); err != nil {
		t.Fatal(err)
	}
	if !there {
		t.Skip("the server has no citext")
	}
	db.Exec(t, "CREATE EXTENSION citext")
	s := counting(t, db, strings.Replace(officialPostgres, "varchar(128)", "citext", 1))
	if seg, err := s.Reserve(t.Context(), "Order", 10); !errors.Is(err, store.ErrNoTag) {
		t.Errorf("Reserve of Order: %v, %v, want ErrNoTag", seg, err)
	}
	if err := s.CreateTag(t.Context(), store.Tag{Name: "Order", Step: 1, Next: 1}); !errors.Is(err, store.ErrSetup) {
		t.Errorf("CreateTag of Order beside order: %v, want ErrSetup", err)
	}
	if err := s.CheckFirst(t.Context()); !errors.Is(err, store.ErrSetup) {
		t.Errorf("CheckFirst: %v, want ErrSetup", err)
	}
	if seg, err := s.Reserve(t.Context(), "order", 10); err != nil || seg.First != 1 {
		t.Errorf("Reserve of order: %v, %v, want [1, 11)", seg, err)
	}
}

// A collation that ignores punctuation makes tags equal, too.
func TestCollationThatIgnoresPunctuation(t *testing.T) {
	db := dbtest.Postgres(t)
	db.Exec(t, "CREATE COLLATION letters (provider = icu, locale = 'und-u-ka-shifted', deterministic = false)")
	s := counting(t, db, strings.Replace(officialPostgres, "varchar(128)", "varchar(128) COLLATE letters", 1))
	if err := s.CheckFirst(t.Context()); !errors.Is(err, store.ErrSetup) {
		t.Errorf("CheckFirst: %v, want ErrSetup", err)
	}
}

// Triggers that keep update_time, and other triggers that change no max_id, are
// no obstacle.
func TestHarmlessTriggersOfPostgres(t *testing.T) {
	db := dbtest.Postgres(t)
	s := counting(t, db, officialPostgres)
	db.Exec(t, "CREATE TABLE audit (n bigint)",
		"CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.update_time := now(); RETURN NEW; END $$",
		"CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit VALUES (NEW.max_id); RETURN NULL; END $$")
	next := int64(1)
	for _, trigger := range []string{
		"BEFORE UPDATE ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION touch()",
		"BEFORE UPDATE ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
		"AFTER UPDATE ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION audit()",
	} {
		db.Exec(t, "CREATE TRIGGER harmless "+trigger)
		if err := leaftest.Open(t, db.DSN(), "leaf_alloc").Check(t.Context()); err != nil {
			t.Errorf("Check with %s: %v", trigger, err)
		}
		if seg, err := s.Reserve(t.Context(), "order", 10); err != nil || seg.First != next {
			t.Errorf("Reserve with %s: %v, %v, want one from %d on", trigger, seg, err, next)
		}
		next += 10
		db.Exec(t, "DROP TRIGGER harmless ON leaf_alloc")
	}
}

// A trigger that skips the UPDATE is named, beside the race that looks alike.
func TestTriggerThatSkipsTheUpdate(t *testing.T) {
	db := dbtest.Postgres(t)
	s := counting(t, db, officialPostgres)
	db.Exec(t, "CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
		"CREATE TRIGGER skip BEFORE UPDATE ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION skip()")
	if seg, err := s.Reserve(t.Context(), "order", 10); !errors.Is(err, store.ErrChanged) || !strings.Contains(err.Error(), "trigger") {
		t.Errorf("Reserve: %v, %v, want ErrChanged that names the trigger", seg, err)
	}
}

// A rule that replaces the UPDATE is found when the table is opened.
func TestRuleOnUpdate(t *testing.T) {
	db := dbtest.Postgres(t)
	s := counting(t, db, officialPostgres)
	for _, rule := range []string{"DO INSTEAD NOTHING", "WHERE NEW.max_id > 0 DO INSTEAD NOTHING"} {
		db.Exec(t, "CREATE RULE stop AS ON UPDATE TO leaf_alloc "+rule)
		_, reserve := s.Reserve(t.Context(), "order", 10)
		for call, err := range map[string]error{"Check": s.Check(t.Context()), "Reserve": reserve} {
			if !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "rules") {
				t.Errorf("%s with %s: %v, want ErrSetup", call, rule, err)
			}
		}
		db.Exec(t, "DROP RULE stop ON leaf_alloc")
	}
	db.Exec(t, "CREATE RULE also AS ON UPDATE TO leaf_alloc DO ALSO NOTIFY changed")
	if seg, err := s.Reserve(t.Context(), "order", 10); err != nil || seg.First != 1 {
		t.Errorf("Reserve: %v, %v, want [1, 11)", seg, err)
	}
}

// Row security that keeps all rows from the user's UPDATE is found when the
// table is opened. If it keeps one, that row is refused. It does not apply to
// the owner, and policies that admit the rows are no obstacle.
func TestRowSecurity(t *testing.T) {
	db := dbtest.Postgres(t)
	user, group := db.Name()+"_u", db.Name()+"_g"
	db.Exec(t, "CREATE USER "+user+" PASSWORD 'pw'", "CREATE ROLE "+group, "GRANT "+group+" TO "+user)
	t.Cleanup(func() {
		_, _ = db.SQL().Exec("DROP OWNED BY " + user + ", " + group + "; DROP USER " + user + "; DROP ROLE " + group)
	})
	const read, update = "FOR SELECT USING (true)", "FOR UPDATE USING "
	for _, test := range []struct {
		policies []string
		check    bool
		served   string // tags
	}{
		{nil, false, ""},
		{[]string{"TO pg_monitor USING (true)"}, false, ""},
		{[]string{read}, false, ""},
		{[]string{update + "(true)"}, false, ""},
		{[]string{read, update + "(step > 10)"}, false, ""},
		{[]string{read, update + "(biz_tag = 'other')"}, true, "other"},
		{[]string{read, update + "(true) WITH CHECK (biz_tag = 'order')"}, true, "order"},
		{[]string{"USING (true)"}, true, "order other"},
		{[]string{"TO " + group + " USING (true)"}, true, "order other"},
	} {
		owner := counting(t, db, officialPostgres)
		db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('other', 1, 10)",
			"GRANT SELECT, INSERT, UPDATE, DELETE ON leaf_alloc TO "+user, "ALTER TABLE leaf_alloc ENABLE ROW LEVEL SECURITY")
		for n, policy := range test.policies {
			db.Exec(t, fmt.Sprintf("CREATE POLICY p%d ON leaf_alloc %s", n, policy))
		}
		s := leaftest.Open(t, db.DSNFor(user, "pw"), "leaf_alloc")
		expect := func(call string, err error, good bool) {
			t.Helper()
			if good != (err == nil) || err != nil && (!errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "row security")) {
				t.Errorf("%s with policies %v: %v, want success: %v", call, test.policies, err, good)
			}
		}
		expect("Check", s.Check(t.Context()), test.check)
		for _, tag := range []string{"order", "other"} {
			served := strings.Contains(test.served, tag)
			_, err := s.Reserve(t.Context(), tag, 10)
			expect("Reserve of "+tag, err, served)
			if row, err := owner.Find(t.Context(), tag); err != nil || (row.Next > 1) != served {
				t.Errorf("%s with policies %v: the row is %v, %v, want it raised: %v", tag, test.policies, row, err, served)
			}
		}
		expect("Check by the owner", owner.Check(t.Context()), true)
		db.Exec(t, "DELETE FROM leaf_alloc")
		if test.check && test.served == "order other" {
			expect("Check of an empty table", leaftest.Open(t, db.DSNFor(user, "pw"), "leaf_alloc").Check(t.Context()), true)
		}
		db.Exec(t, "ALTER TABLE leaf_alloc DISABLE ROW LEVEL SECURITY")
		expect("Check without row security", s.Check(t.Context()), true)
		db.Exec(t, "DROP TABLE leaf_alloc")
	}
}

// Settings that lose commits in a crash are reported with their value in the
// sessions of the table.
func TestUnsafeSettingsOfPostgres(t *testing.T) {
	tier.All(t)
	for fsync, unsafe := range map[string]map[string]string{"on": {}, "off": {"fsync": "off"}} {
		t.Run("fsync "+fsync, func(t *testing.T) {
			srv := dbtest.StartPostgres(t, "-c", "fsync="+fsync)
			counting(t, srv.DB, officialPostgres)
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

// eventuallyUnsafe retries with new connections until a setting takes effect:
// the server reloads its configuration after its reply.
func eventuallyUnsafe(t *testing.T, srv *dbtest.Instance, set string, want map[string]string) {
	t.Helper()
	natstest.Eventually(t, set+" to be reported", func() bool {
		s, err := sql.Open(srv.DSNFor("app", "pw"), "leaf_alloc")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		got, unknown := unsafe(t, s)
		return !unknown && maps.Equal(got, want)
	})
}

// A setting that the user may not read is neither safe nor unsafe.
func TestUnknownSettingOfPostgres(t *testing.T) {
	tier.All(t)
	srv := dbtest.StartPostgres(t)
	counting(t, srv.DB, officialPostgres)
	srv.Exec(t, "CREATE USER app PASSWORD 'pw'", "REVOKE EXECUTE ON FUNCTION pg_catalog.current_setting(text) FROM public")
	s := leaftest.Open(t, srv.DSNFor("app", "pw"), "leaf_alloc")
	if got, unknown := unsafe(t, s); !unknown || len(got) > 0 {
		t.Errorf("unsafe is %v, unknown %v", got, unknown)
	}
	srv.Kill()
	if err := s.Durability(t.Context()); err == nil || errors.Is(err, store.ErrSettingUnknown) {
		t.Errorf("without a database: %v, want another error", err)
	}
}

// A temporary table hides the right table, and disappears with its connection.
func TestTemporaryTable(t *testing.T) {
	db := dbtest.Postgres(t)
	s := counting(t, db, officialPostgres)
	c, err := sql.Parse(db.DSN(), "leaf_alloc")
	if err != nil {
		t.Fatal(err)
	}
	hidden, err := c.Starting("CREATE TEMPORARY TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint, step int)").Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hidden.Close() }()
	var unsafe *store.UnsafeTableError
	if err := hidden.Check(t.Context()); !errors.As(err, &unsafe) || unsafe.Kind != "TEMPORARY (leaf_alloc)" {
		t.Errorf("Check: %v, want an UnsafeTableError", err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check of the table itself: %v", err)
	}
}

// A domain has the limit of the type below it.
func TestLimitOfADomain(t *testing.T) {
	db := dbtest.Postgres(t)
	db.Exec(t, "CREATE DOMAIN number AS integer CHECK (VALUE > 0)", "CREATE DOMAIN max_number AS number")
	s := counting(t, db, strings.Replace(officialPostgres, "max_id bigint", "max_id max_number", 1))
	if limit, err := s.Limit(t.Context()); err != nil || limit != math.MaxInt32 {
		t.Errorf("%d, %v, want 2^31-1", limit, err)
	}
}

// A published table without a key refuses each UPDATE until an administrator
// acts.
func TestPublishedTableWithoutAKey(t *testing.T) {
	db := dbtest.Postgres(t)
	s := leaftest.Open(t, db.DSN(), "leaf_alloc")
	db.Exec(t, "CREATE TABLE leaf_alloc (biz_tag varchar(128), max_id bigint, step bigint)",
		"INSERT INTO leaf_alloc VALUES ('order', 1, 10)", "CREATE PUBLICATION of_leaf FOR TABLE leaf_alloc")
	if _, err := s.Reserve(t.Context(), "order", 10); !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "a primary key") {
		t.Errorf("%v, want ErrSetup with the remedy", err)
	}
}
