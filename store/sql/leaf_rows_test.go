package sql_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/tier"
)

// A collation that treats two tags as equal must not make them share a row, or
// use up each other's IDs.
func (b *suite) testExactTag(t *testing.T) {
	db := b.Database(t)
	s := fresh(t, db, b.IgnoreCase)
	if err := s.CreateTag(t.Context(), store.Tag{Name: "order", Step: 10, Next: 1}); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('pad ', 1, 10)")
	for _, tag := range []string{"Order", "ORDER", "pad"} {
		if seg, err := s.Reserve(t.Context(), tag, 10); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("Reserve of %s: %v, %v, want ErrNoTag", tag, seg, err)
		}
		if row, err := s.Find(t.Context(), tag); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("Find of %s: %v, %v, want ErrNoTag", tag, row, err)
		}
		if err := s.SetStep(t.Context(), tag, 99); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("SetStep of %s: %v, want ErrNoTag", tag, err)
		}
		for _, next := range []int64{1, 5000} {
			if err := s.Raise(t.Context(), tag, next); !errors.Is(err, store.ErrNoTag) {
				t.Errorf("Raise of %s to %d: %v, want ErrNoTag", tag, next, err)
			}
		}
		if err := s.RemoveTag(t.Context(), tag, 1); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("RemoveTag of %s: %v, want ErrNoTag", tag, err)
		}
	}
	if err := s.CreateTag(t.Context(), store.Tag{Name: "Order", Step: 10, Next: 1}); !errors.Is(err, store.ErrSetup) || !errors.Is(err, store.ErrBadTag) {
		t.Errorf("CreateTag of Order beside order: %v, want ErrSetup and ErrBadTag", err)
	}
	if seg, err := s.Reserve(t.Context(), "order", 10); err != nil || seg.First != 1 {
		t.Errorf("Reserve of order: %v, %v, want [1, 11)", seg, err)
	}
}

// Tags that are created on their first use may have any names, so a column that
// treats two of them as equal is refused. The error has the statement that
// corrects the column.
func (b *suite) testDistinctTags(t *testing.T) {
	db := b.Database(t)
	s := fresh(t, db, b.IgnoreCase)
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check, for tags that are created: %v", err)
	}
	err := s.CheckFirst(t.Context())
	if !errors.Is(err, store.ErrSetup) {
		t.Fatalf("CheckFirst: %v, want ErrSetup", err)
	}
	_, statement, _ := strings.Cut(err.Error(), "ALTER TABLE ")
	db.Exec(t, "ALTER TABLE "+statement)
	if err := s.CheckFirst(t.Context()); err != nil {
		t.Errorf("CheckFirst after ALTER TABLE %s: %v", statement, err)
	}
	for _, name := range []string{"order", "Order"} {
		if err := s.CreateTag(t.Context(), store.Tag{Name: name, Step: 10, Next: 11}); err != nil {
			t.Errorf("CreateTag of %s: %v", name, err)
		}
	}
}

// A column that changes names is refused when the table is opened. In others,
// whatever the padding and the character set, a tag has the name it was given.
func (b *suite) testNames(t *testing.T) {
	db := b.Database(t)
	for kind, good := range b.Names {
		s := fresh(t, db, strings.Replace(b.Shapes["official"], "varchar(128)", kind, 1))
		create := s.CreateTag(t.Context(), store.Tag{Name: "order", Step: 10, Next: 1})
		seg, reserve := s.Reserve(t.Context(), "order", 10)
		for call, err := range map[string]error{"Check": s.Check(t.Context()), "CreateTag": create, "Reserve": reserve} {
			if good != (err == nil) || !good && (!errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "biz_tag")) {
				t.Errorf("%s with names of type %s: %v, want them accepted: %v", call, kind, err, good)
			}
		}
		if good {
			tags, err := s.Tags(t.Context())
			want := []store.Tag{{Name: "order", Step: 10, Next: 11}}
			if seg.First != 1 || !slices.Equal(tags, want) {
				t.Errorf("names of type %s: got %v, then listed %v, %v", kind, seg, tags, err)
			}
			if err := errors.Join(s.SetStep(t.Context(), "order", 20), s.Raise(t.Context(), "order", 50), s.RemoveTag(t.Context(), "order", 50)); err != nil {
				t.Errorf("names of type %s: %v", kind, err)
			}
		}
		db.Exec(t, "DROP TABLE leaf_alloc")
	}
}

// A locked row delays only its own tag, also when the table is opened.
func (b *suite) testLockedRow(t *testing.T) {
	db := b.Database(t)
	db.Exec(t, b.Shapes["official"], "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('a', 1, 10), ('b', 1, 10)")
	lock, err := db.SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback() }()
	if _, err := lock.ExecContext(t.Context(), "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = 'a'"); err != nil {
		t.Fatal(err)
	}
	if seg, err := leaftest.Open(t, db.DSN(), "leaf_alloc").Reserve(t.Context(), "b", 10); err != nil || seg.First != 1 {
		t.Errorf("Reserve: %v, %v, want [1, 11)", seg, err)
	}
	if err := leaftest.Open(t, db.DSN(), "leaf_alloc").Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	if err := leaftest.Open(t, db.DSN(), "leaf_alloc").CreateTag(t.Context(), store.Tag{Name: "new", Step: 1, Next: 1}); err != nil {
		t.Errorf("CreateTag: %v", err)
	}
}

// Find returns a tag's row unchanged, in bounds or not.
func (b *suite) testFind(t *testing.T) {
	db := b.Database(t)
	s := fresh(t, db, b.NoKey)
	db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10), ('other', 5, 5), ('bounds', -7, 0),"+
		" ('twice', 1, 10), ('twice', 500, 10), ('null', NULL, 10), ('step', 1, NULL)")
	if _, err := s.Reserve(t.Context(), "order", 25); err != nil {
		t.Fatal(err)
	}
	for _, want := range []store.Tag{{Name: "order", Step: 10, Next: 26}, {Name: "bounds", Step: 0, Next: -7}} {
		if row, err := s.Find(t.Context(), want.Name); err != nil || row != want {
			t.Errorf("Find of %s: %v, %v, want %v", want.Name, row, err, want)
		}
	}
	refused := func(tag string, want error) {
		t.Helper()
		if row, err := s.Find(t.Context(), tag); !errors.Is(err, want) || row != (store.Tag{}) {
			t.Errorf("Find of %q: %v, %v, want %v", tag, row, err, want)
		}
	}
	for tag, want := range map[string]error{
		"twice": store.ErrCorrupt, "null": store.ErrCorrupt, "step": store.ErrCorrupt,
		"missing": store.ErrNoTag, "": store.ErrBadTag, "a b": store.ErrBadTag, "x' OR '1'='1": store.ErrBadTag,
	} {
		refused(tag, want)
	}
	db.Exec(t, "DROP TABLE leaf_alloc", b.Wide, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('wide', 9223372036854775808, 1)")
	refused("wide", store.ErrCorrupt)
	tags, err := s.Tags(t.Context())
	if entries, all := unreadable(err); len(tags) > 0 || !all || len(entries) != 1 || entries[0].Tag != "wide" {
		t.Errorf("Tags: %v, %v, want an unreadable tag wide", tags, err)
	}
}

// Rows that were inserted by hand are listed as they are. Rows that cannot be
// counted from are refused, and stay as they are.
func (b *suite) testUnusableRows(t *testing.T) {
	db := b.Database(t)
	s := fresh(t, db, b.NoKey)
	rows := []store.Tag{
		{Name: "zero", Step: 0, Next: 1}, {Name: "negative", Step: -5, Next: 1},
		{Name: "none", Step: 10, Next: 0}, {Name: "below", Step: 10, Next: -7},
		{Name: "a b", Step: 10, Next: 1}, {Name: "*", Step: 10, Next: 1}, {Name: "", Step: 10, Next: 1},
		{Name: "end", Step: 10, Next: 1<<63 - 5},
	}
	want := make(map[string]store.Tag)
	for _, row := range rows {
		db.Exec(t, fmt.Sprintf("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('%s', %d, %d)", row.Name, row.Next, row.Step))
		want[row.Name] = row
	}
	db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('null', NULL, 10), (NULL, 1, 1), ('a:b', NULL, 10)")

	tags, err := s.Tags(t.Context())
	if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), `"null"`) {
		t.Errorf("Tags: %v, want ErrCorrupt that names null", err)
	}
	if entries, all := unreadable(err); all || len(entries) != 1 || entries[0].Tag != "null" {
		t.Errorf("Tags: unreadable are %v, all of them: %t, want null and a row without a name", entries, all)
	}
	got := make(map[string]store.Tag)
	for _, tag := range tags {
		got[tag.Name] = tag
	}
	want["a:b"] = store.Tag{Name: "a:b"} // no tag, so its numbers do not matter
	if !maps.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	delete(want, "a:b")

	for tag, want := range map[string]error{
		"none": store.ErrCorrupt, "below": store.ErrCorrupt, "null": store.ErrCorrupt,
		"a b": store.ErrBadTag, "*": store.ErrBadTag, "": store.ErrBadTag, "x' OR '1'='1": store.ErrBadTag,
		"end": store.ErrExhausted,
	} {
		if seg, err := s.Reserve(t.Context(), tag, 10); !errors.Is(err, want) {
			t.Errorf("Reserve of %q: %v, %v, want %v", tag, seg, err, want)
		}
		if errors.Is(want, store.ErrExhausted) { // a matter of the step
			want = nil
		}
		for _, next := range []int64{1, 5000} {
			if err := s.Raise(t.Context(), tag, next); !errors.Is(err, want) {
				t.Errorf("Raise of %q to %d: %v, want %v", tag, next, err, want)
			}
		}
	}
	for tag, row := range want {
		if n := maxID(t, db, tag); n != row.Next {
			t.Errorf("max_id of %q is %d, was %d", tag, n, row.Next)
		}
	}
	// A bad configured step does not matter to a caller that names a step.
	if seg, err := s.Reserve(t.Context(), "zero", 10); err != nil || seg != (store.Segment{First: 1, End: 11}) {
		t.Errorf("Reserve of a row with step 0: %v, %v", seg, err)
	}
	if err := s.SetStep(t.Context(), "zero", 10); err != nil {
		t.Errorf("SetStep of a row with step 0: %v", err)
	}

	db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('twice', 1, 10), ('twice', 500, 10)")
	for range 3 { // only the first discards a range
		if seg, err := s.Reserve(t.Context(), "twice", 10); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("Reserve of a tag with two rows: %v, %v, want ErrCorrupt", seg, err)
		}
	}
	if n := maxID(t, db, "twice"); n != 510 {
		t.Errorf("max_id of a tag with two rows is %d, want 510", n)
	}
	if err := s.Raise(t.Context(), "twice", 1000); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Raise of a tag with two rows: %v, want ErrCorrupt", err)
	}
	for _, tag := range []string{"twice", "below"} {
		if err := s.RemoveTag(t.Context(), tag, 1000); err != nil {
			t.Errorf("RemoveTag of %s: %v", tag, err)
		}
		if err := s.RemoveTag(t.Context(), tag, 1000); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("RemoveTag of %s again: %v, want ErrNoTag", tag, err)
		}
	}
	if err := s.RemoveTag(t.Context(), "null", 1000); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("RemoveTag of a row without a number: %v, want ErrCorrupt", err)
	}
	if err := s.SetStep(t.Context(), "zero", 1<<40); !errors.Is(err, store.ErrBadTag) {
		t.Errorf("SetStep to more than the column holds: %v, want ErrBadTag", err)
	}
	if err := s.CreateTag(t.Context(), store.Tag{Name: "new", Step: 1 << 40, Next: 1}); !errors.Is(err, store.ErrBadTag) {
		t.Errorf("CreateTag with a step that is more than the column holds: %v, want ErrBadTag", err)
	}
}

func (b *suite) testManyTags(t *testing.T) {
	const batch = 5000
	n := tier.Pick(20_000, 100_000)
	db := b.Database(t)
	s := leaftest.Open(t, db.DSN(), "leaf_alloc")
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; i += batch {
		var rows []string
		for j := range batch {
			rows = append(rows, fmt.Sprintf("('tag%06d', %d, %d)", i+j, i+j+1, 1+(i+j)%1000))
		}
		db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES "+strings.Join(rows, ","))
	}
	start := time.Now()
	tags, err := s.Tags(t.Context())
	if err != nil || len(tags) != n {
		t.Fatalf("%d tags, %v, want %d", len(tags), err, n)
	}
	t.Logf("%d tags in %v", n, time.Since(start))
	slices.SortFunc(tags, func(a, b store.Tag) int { return strings.Compare(a.Name, b.Name) })
	for i, tag := range tags {
		if want := (store.Tag{Name: fmt.Sprintf("tag%06d", i), Step: int64(1 + i%1000), Next: int64(i + 1)}); tag != want {
			t.Fatalf("listed %v, want %v", tag, want)
		}
	}
	if seg, err := s.Reserve(t.Context(), fmt.Sprintf("tag%06d", n-1), 7); err != nil || seg.First != int64(n) {
		t.Errorf("Reserve: %v, %v", seg, err)
	}
}

// A table that loses rows in a crash, or is no table, is refused before any
// range is handed out from it. A good table in its place is accepted.
func (b *suite) testForgetful(t *testing.T) {
	db := b.Database(t)
	for flaw, table := range b.Forgetful {
		s := leaftest.Open(t, db.DSN(), "leaf_alloc")
		create, drop := strings.Split(table[0], ";"), strings.Split(table[1], ";")
		db.Exec(t, create...)
		db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10)")
		_, reserve := s.Reserve(t.Context(), "order", 10)
		for call, err := range map[string]error{"Check": s.Check(t.Context()), "Reserve": reserve, "Raise": s.Raise(t.Context(), "order", 10),
			"CreateTag": s.CreateTag(t.Context(), store.Tag{Name: "new", Step: 1, Next: 1})} {
			var unsafe *store.UnsafeTableError
			if !errors.Is(err, store.ErrSetup) || !errors.As(err, &unsafe) || !strings.Contains(unsafe.Kind, flaw) || !strings.Contains(err.Error(), "table leaf_alloc") {
				t.Errorf("%s of a table that is %s: %v, want an UnsafeTableError", call, flaw, err)
			}
		}
		t.Log(reserve)
		if n := maxID(t, db, "order"); n != 1 {
			t.Errorf("%s: max_id is %d, was 1", flaw, n)
		}
		db.Exec(t, drop...)
		db.Exec(t, b.Shapes["official"], "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10)")
		if seg, err := s.Reserve(t.Context(), "order", 10); err != nil || seg.First != 1 {
			t.Errorf("Reserve from a table in place of one that was %s: %v, %v", flaw, seg, err)
		}
		db.Exec(t, "DROP TABLE leaf_alloc")
	}
}

// unsafe returns the settings that the table reports as unsafe, with their
// values, and whether it reports unknown ones.
func unsafe(t *testing.T, s store.Database) (settings map[string]string, unknown bool) {
	t.Helper()
	err := s.Durability(t.Context())
	if err == nil {
		return map[string]string{}, false
	}
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	settings = make(map[string]string)
	for _, err := range all {
		mute(t, err)
		var unsafe *store.UnsafeSettingError
		switch {
		case errors.As(err, &unsafe):
			settings[unsafe.Setting] = unsafe.Value
		case errors.Is(err, store.ErrSettingUnknown):
			unknown = true
		default:
			t.Errorf("Durability: %v, want unsafe or unknown settings", err)
		}
	}
	return settings, unknown
}

// Numbers that the column would round or cut off are never handed out.
func (b *suite) testColumns(t *testing.T) {
	db := b.Database(t)
	s := fresh(t, db, b.Float)
	db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 9007199254740992, 5)")
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "max_id") {
		t.Errorf("Check of a floating-point max_id: %v, want ErrSetup", err)
	}
	if seg, err := s.Reserve(t.Context(), "order", 5); !errors.Is(err, store.ErrSetup) {
		t.Errorf("Reserve from a floating-point max_id: %v, %v, want ErrSetup", seg, err)
	}
	if err := s.CreateTag(t.Context(), store.Tag{Name: "new", Step: 1, Next: 9007199254740993}); !errors.Is(err, store.ErrSetup) {
		t.Errorf("CreateTag with a floating-point max_id: %v, want ErrSetup", err)
	}
	if err := s.Raise(t.Context(), "order", 9007199254740993); !errors.Is(err, store.ErrSetup) {
		t.Errorf("Raise of a floating-point max_id: %v, want ErrSetup", err)
	}
	if limit, err := s.Limit(t.Context()); !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "max_id") {
		t.Errorf("Limit of a floating-point max_id: %d, %v, want ErrSetup that names the column", limit, err)
	}
	db.Exec(t, "DROP TABLE leaf_alloc")

	s = fresh(t, db, b.Narrow)
	db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 2147483600, 5)")
	if seg, err := s.Reserve(t.Context(), "order", 40); err != nil || seg.First != 2147483600 {
		t.Errorf("Reserve of what fits: %v, %v", seg, err)
	}
	if seg, err := s.Reserve(t.Context(), "order", 40); !errors.Is(err, store.ErrExhausted) || !strings.Contains(strings.ToLower(err.Error()), "bigint") {
		t.Errorf("Reserve of more than the column holds: %v, %v, want ErrExhausted", seg, err)
	}
	for _, next := range []int64{1 << 31, 1<<63 - 1} {
		if err := s.Raise(t.Context(), "order", next); !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "BIGINT") {
			t.Errorf("Raise to %d, which the column does not hold: %v, want ErrSetup", next, err)
		}
	}
	if n := maxID(t, db, "order"); n != 2147483640 {
		t.Errorf("max_id is %d, was 2147483640", n)
	}
}

// A row can be raised to the limit of its column, and no further.
func (b *suite) testLimits(t *testing.T) {
	db := b.Database(t)
	s := leaftest.Open(t, db.DSN(), "leaf_alloc")
	for kind, want := range b.Limits {
		db.Exec(t, strings.Replace(b.Narrow, "max_id int", "max_id "+kind, 1), "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10)")
		if limit, err := s.Limit(t.Context()); err != nil || limit != want {
			t.Errorf("limit of %s: %d, %v, want %d", kind, limit, err, want)
		}
		if err := s.Raise(t.Context(), "order", want); err != nil {
			t.Errorf("Raise of %s to its limit: %v", kind, err)
		}
		if want < math.MaxInt64 {
			if err := s.Raise(t.Context(), "order", want+1); !errors.Is(err, store.ErrSetup) {
				t.Errorf("Raise of %s beyond its limit: %v, want ErrSetup", kind, err)
			}
		}
		if row, err := s.Find(t.Context(), "order"); err != nil || row.Next != want {
			t.Errorf("%s holds %d, %v, want %d", kind, row.Next, err, want)
		}
		db.Exec(t, "DROP TABLE leaf_alloc")
	}
}

// The numbers left in a narrow column, or below the bound of a constraint, are
// reserved to the last. Only the end of the column's type is known before. If a
// constraint refuses a row, nothing changes, and the error names the constraint.
// A wider column, or the end of the constraint, heals that at once.
func (b *suite) testLastNumbers(t *testing.T) {
	tables := maps.Clone(b.Bounded)
	tables["narrow"] = [2]string{strings.Replace(b.Narrow, "max_id int", "max_id smallint", 1), b.Widen}
	for name, table := range tables {
		t.Run(name, func(t *testing.T) {
			end, limit := int64(5000), int64(math.MaxInt64)
			refused := regexp.MustCompile("^table leaf_alloc, tag [a-z]+: a constraint refuses the row: [^\n]+; drop or change that constraint$")
			if name == "narrow" {
				end, limit = math.MaxInt16, math.MaxInt16
				refused = regexp.MustCompile("column max_id is too narrow for [^\n]+; make it BIGINT$")
			}
			db := b.Database(t)
			s := fresh(t, db, table[0])
			if known, err := s.Limit(t.Context()); err != nil || known != limit {
				t.Errorf("Limit: %d, %v, want %d", known, err, limit)
			}
			next := end - 700
			db.Exec(t, fmt.Sprintf("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', %d, 10)", next))
			unchanged := func() {
				t.Helper()
				if n := maxID(t, db, "order"); n != next {
					t.Errorf("max_id is %d, want %d", n, next)
				}
			}
			exhausted := func(seg store.Segment, err error) {
				t.Helper()
				if !errors.Is(err, store.ErrExhausted) || errors.Is(err, store.ErrSetup) || seg != (store.Segment{}) || strings.Contains(err.Error(), "\n") {
					t.Errorf("reserve of more than is left: %v, %v, want ErrExhausted in one line", seg, err)
				}
				unchanged()
			}
			exhausted(s.Reserve(t.Context(), "order", 1000))
			if err := s.Raise(t.Context(), "order", end+1); !errors.Is(err, store.ErrSetup) || !refused.MatchString(err.Error()) {
				t.Errorf("Raise beyond the end: %v, want ErrSetup that matches %v", err, refused)
			}
			unchanged()
			if err := s.CreateTag(t.Context(), store.Tag{Name: "new", Step: 10, Next: end + 1}); !errors.Is(err, store.ErrBadTag) {
				t.Errorf("CreateTag beyond the end: %v, want ErrBadTag", err)
			}
			if _, err := s.Find(t.Context(), "new"); !errors.Is(err, store.ErrNoTag) {
				t.Errorf("Find of the tag that was not created: %v", err)
			}
			for next < end {
				seg, err := s.ReserveRest(t.Context(), "order", 1000)
				if err != nil || seg.First != next {
					t.Fatalf("ReserveRest from %d: %v, %v", next, seg, err)
				}
				next = seg.End
			}
			for range 2 {
				exhausted(s.ReserveRest(t.Context(), "order", 1000))
			}
			if table[1] == "" {
				return
			}
			db.Exec(t, table[1])
			if seg, err := s.Reserve(t.Context(), "order", 1000); err != nil || seg.First != end {
				t.Errorf("Reserve without the bound: %v, %v", seg, err)
			}
		})
	}
}
