package sql_test

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/sql"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/tier"
)

// canary is a password that no error may contain.
const canary = "Canary-4c1e"

// mute fails the test if an error gives the password away, however it is
// printed.
func mute(t *testing.T, err error) {
	t.Helper()
	for _, text := range []string{fmt.Sprint(err), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
		if strings.Contains(text, canary) || strings.Contains(text, "Canary-dbtest") {
			t.Errorf("the password is in %s", text)
		}
	}
}

func (b *suite) testMigrate(t *testing.T) {
	db := b.Database(t)
	s := leaftest.Open(t, db.DSN(), "ids")
	missing := func(call string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrNoTable) || !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "ids") {
			t.Errorf("%s without a table: %v, want ErrNoTable, an ErrSetup, that names the table", call, err)
		}
	}
	_, err := s.Reserve(t.Context(), "order", 1)
	missing("Reserve", err)
	_, err = s.Find(t.Context(), "order")
	missing("Find", err)
	_, err = s.Tags(t.Context())
	missing("Tags", err)
	missing("CreateTag", s.CreateTag(t.Context(), store.Tag{Name: "order", Step: 1, Next: 1}))
	missing("SetStep", s.SetStep(t.Context(), "order", 1))
	missing("Raise", s.Raise(t.Context(), "order", 1))
	missing("RemoveTag", s.RemoveTag(t.Context(), "order", 1))
	_, err = s.Limit(t.Context())
	missing("Limit", err)
	missing("Check", s.Check(t.Context()))
	missing("CheckFirst", s.CheckFirst(t.Context()))

	var others [8]*sql.LeafTable // several processes may start at once
	for i := range others {
		others[i] = leaftest.Open(t, db.DSN(), "ids")
		missing("Check", others[i].Check(t.Context())) // it is connected from now on
	}
	for range tier.Pick(5, 50) {
		db.Exec(t, "DROP TABLE IF EXISTS ids")
		var wg sync.WaitGroup
		for _, other := range others {
			wg.Go(func() {
				if err := other.Migrate(t.Context()); err != nil {
					t.Errorf("Migrate: %v", err)
				}
			})
		}
		wg.Wait()
	}
	if err := s.CreateTag(t.Context(), store.Tag{Name: "order", Step: 1, Next: 5}); err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Errorf("Migrate again: %v", err)
	}
	if seg, err := s.Reserve(t.Context(), "order", 1); err != nil || seg.First != 5 {
		t.Errorf("after Migrate again: %v, %v", seg, err)
	}
	if err := errors.Join(s.Check(t.Context()), s.CheckFirst(t.Context())); err != nil {
		t.Errorf("Check: %v", err)
	}
	for _, table := range []string{"", "a b", "a;b", "a.b.c", ".a", "a.", "1a", "a`b", `a"b`, "täg", strings.Repeat("x", 65)} {
		if _, err := sql.Open(db.DSN(), table); err == nil || !strings.Contains(err.Error(), "malformed table name") {
			t.Errorf("table %q: %v, want an error", table, err)
		}
	}
}

func (b *suite) testMalformedDSN(t *testing.T) {
	good := b.Rest("db.example:1234", "ids")
	scheme, rest, _ := strings.Cut(good, "//")
	for _, dsn := range []string{
		"", canary, "http://u:" + canary + "@h/db", scheme + "//u:" + canary,
		scheme + "//u:" + canary + "@:::/db", scheme + "//u:" + canary + "%zz@" + rest,
		scheme + "//u:" + canary + "/x@" + rest[:3] + "[::1", scheme + "//u:" + canary + "@tcp(h:1/db",
		scheme + "//u:" + canary + "@h:port/db", scheme + "//u:" + canary + "/%zz" + canary,
		scheme + "//u:" + canary + "\x7f@h:99999999/db?connect_timeout=" + canary,
		scheme + "//u:" + canary + "@tcp(h)/db?timeout=" + canary, scheme + "//u:" + canary + "@tcp(h)/db?strict=true",
		scheme + "//u:" + canary + "@h/db?sslmode=" + canary, scheme + "//u:p@tcp(h)/db?tls=" + canary,
	} {
		s, err := sql.Open(dsn, "leaf_alloc")
		if err == nil {
			_ = s.Close()
			if !strings.Contains(dsn, "?") && !strings.Contains(dsn, "%zz@") {
				t.Errorf("DSN %q was accepted", dsn)
			}
			continue
		}
		mute(t, err)
		if !strings.Contains(err.Error(), "malformed DSN") {
			t.Errorf("DSN %q: %v", dsn, err)
		}
	}
}

// For each database that is not set up, or does not exist, the error is one line
// that names the cause, then what was reported, then the remedy; and no password.
func (b *suite) testBadDatabases(t *testing.T) {
	db := b.Database(t)
	for _, create := range b.Shapes {
		db.Exec(t, create)
		break
	}
	db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10)",
		"CREATE TABLE other (biz_tag VARCHAR(128), max_id BIGINT)")
	reader, stranger := db.Name()+"_r", db.Name()+"_s"
	for _, user := range [][]string{b.User(reader, canary, "SELECT"), b.User(stranger, canary, "")} {
		db.Exec(t, user[:len(user)-1]...)
		t.Cleanup(func() { _, _ = db.SQL().Exec(user[len(user)-1]) })
	}
	closed := fmt.Sprintf("127.0.0.1:%d", freeport.Get(t))

	with := func(addr, name string) string {
		return strings.Replace(b.Rest(addr, name), "//", "//"+reader+":"+canary+"@", 1)
	}
	for _, test := range []struct {
		name, dsn, table string
		setup            bool
		cause, remedy    string
	}{
		{"wrong password", db.DSNFor(reader, canary+"x"), "leaf_alloc", true, "user or password refused", "check the DSN"},
		{"unknown user", db.DSNFor("stranger_"+reader, canary), "leaf_alloc", true, "user or password refused", "check the DSN"},
		{"unknown database", with(db.Addr(), b.NoDatabase), "leaf_alloc", true, "no such database", "create it or check the DSN"},
		{"missing columns", db.DSN(), "other", true, "a column is missing", "the table needs the columns biz_tag, max_id and step"},
		{"user who may only read", db.DSNFor(reader, canary), "leaf_alloc", true, "a right is missing", "grant the user SELECT, INSERT and UPDATE"},
		{"user who may do nothing", db.DSNFor(stranger, canary), "leaf_alloc", true, "a right is missing", "grant the user SELECT, INSERT and UPDATE"},
		{"unknown host", with("no-such-host.invalid:3306", db.Name()), "leaf_alloc", false, "unknown database host", "check the DSN"},
		{"closed port", with(closed, db.Name()), "leaf_alloc", false, "database unreachable", "start it, or check host and port in the DSN"},
	} {
		want := regexp.MustCompile("^table " + test.table + "(, tag order)?: " + test.cause + ": [^;\n]+; " + test.remedy)
		t.Run(test.name, func(t *testing.T) {
			s := leaftest.Open(t, test.dsn, test.table)
			_, reserve := s.Reserve(t.Context(), "order", 1)
			for call, err := range map[string]error{"Check": s.Check(t.Context()), "Reserve": reserve} {
				mute(t, err)
				if err == nil || errors.Is(err, store.ErrSetup) != test.setup || !want.MatchString(err.Error()) {
					t.Errorf("%s: %v, want an error that matches %v, ErrSetup %v", call, err, want, test.setup)
				}
			}
			t.Log(reserve)
			_, tags := s.Tags(t.Context())
			_, limit := s.Limit(t.Context())
			_, find := s.Find(t.Context(), "order")
			for _, err := range []error{tags, limit, find, s.CheckFirst(t.Context()), s.Durability(t.Context()), s.Migrate(t.Context()), s.SetStep(t.Context(), "order", 20),
				s.Raise(t.Context(), "order", 20), s.RemoveTag(t.Context(), "order", 20),
				s.CreateTag(t.Context(), store.Tag{Name: "new", Step: 1, Next: 1})} {
				mute(t, err)
			}
		})
	}
	if n := maxID(t, db, "order"); n != 1 {
		t.Errorf("max_id is %d, was 1", n)
	}
}

// Only RemoveTag needs the right to delete rows, and its error names it.
func (b *suite) testRights(t *testing.T) {
	db := b.Database(t)
	db.Exec(t, b.Shapes["official"], "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10)")
	name := db.Name() + "_u"
	user := b.User(name, canary, "SELECT, INSERT, UPDATE")
	db.Exec(t, user[:len(user)-1]...)
	t.Cleanup(func() { _, _ = db.SQL().Exec(user[len(user)-1]) })
	s := leaftest.Open(t, db.DSNFor(name, canary), "leaf_alloc")
	if err := errors.Join(s.Check(t.Context()), s.Raise(t.Context(), "order", 100), s.SetStep(t.Context(), "order", 20),
		s.CreateTag(t.Context(), store.Tag{Name: "new", Step: 1, Next: 1})); err != nil {
		t.Error(err)
	}
	if seg, err := s.Reserve(t.Context(), "order", 10); err != nil || seg.First != 100 {
		t.Errorf("Reserve: %v, %v, want [100, 110)", seg, err)
	}
	if limit, err := s.Limit(t.Context()); err != nil || limit != math.MaxInt64 {
		t.Errorf("Limit: %d, %v, want 2^63-1", limit, err)
	}
	err := s.RemoveTag(t.Context(), "order", 110)
	mute(t, err)
	if !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "DELETE on the table") || strings.Contains(err.Error(), "INSERT") {
		t.Errorf("RemoveTag without the right: %v, want ErrSetup that names DELETE only", err)
	}
	t.Log(err)
	if n := maxID(t, db, "order"); n != 110 {
		t.Errorf("max_id is %d, was 110", n)
	}
}
