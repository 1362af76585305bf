package leaftest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/store"
)

// A collation that treats two tags as equal must not make them share a row, or use up each
// other's.
func (b *Backend) testExactTag(t *testing.T) {
	db := b.Database(t)
	s := b.fresh(t, db, b.IgnoreCase)
	if err := s.CreateTag(t.Context(), store.Tag{Name: "order", Step: 10, Next: 1}); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('pad ', 1, 10)")
	for _, tag := range []string{"Order", "ORDER", "pad"} {
		if seg, err := s.Reserve(t.Context(), tag, 10); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("Reserve of %s: %v, %v, want ErrNoTag", tag, seg, err)
		}
		if err := s.SetStep(t.Context(), tag, 99); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("SetStep of %s: %v, want ErrNoTag", tag, err)
		}
	}
	if err := s.CreateTag(t.Context(), store.Tag{Name: "Order", Step: 10, Next: 1}); !errors.Is(err, store.ErrSetup) {
		t.Errorf("CreateTag of Order beside order: %v, want ErrSetup", err)
	}
	if seg, err := s.Reserve(t.Context(), "order", 10); err != nil || seg.First != 1 {
		t.Errorf("Reserve of order: %v, %v, want [1, 11)", seg, err)
	}
}

// Rows that were inserted by hand are listed as they are; those that cannot be counted from
// are refused, and stay as they are.
func (b *Backend) testUnusableRows(t *testing.T) {
	db := b.Database(t)
	s := b.fresh(t, db, b.NoKey)
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
	db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('null', NULL, 10), (NULL, 1, 1)")

	tags, err := s.Tags(t.Context())
	if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), `"null"`) {
		t.Errorf("Tags: %v, want ErrCorrupt that names null", err)
	}
	if entries, all := store.Unreadable(err); all || len(entries) != 1 || entries[0].Tag != "null" {
		t.Errorf("Tags: unreadable are %v, all of them: %t, want null and a row without a name", entries, all)
	}
	got := make(map[string]store.Tag)
	for _, tag := range tags {
		got[tag.Name] = tag
	}
	if !maps.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}

	for tag, want := range map[string]error{
		"none": store.ErrCorrupt, "below": store.ErrCorrupt, "null": store.ErrCorrupt,
		"a b": store.ErrBadTag, "*": store.ErrBadTag, "": store.ErrBadTag, "x' OR '1'='1": store.ErrBadTag,
		"end": store.ErrExhausted,
	} {
		if seg, err := s.Reserve(t.Context(), tag, 10); !errors.Is(err, want) {
			t.Errorf("Reserve of %q: %v, %v, want %v", tag, seg, err, want)
		}
	}
	for tag, row := range want {
		if n := maxID(t, db, tag); n != row.Next {
			t.Errorf("max_id of %q is %d, was %d", tag, n, row.Next)
		}
	}
	// A bad configured step does not matter to a caller that asks for a certain step.
	if seg, err := s.Reserve(t.Context(), "zero", 10); err != nil || seg != (store.Segment{First: 1, End: 11}) {
		t.Errorf("Reserve of a row with step 0: %v, %v", seg, err)
	}
	if err := s.SetStep(t.Context(), "zero", 10); err != nil {
		t.Errorf("SetStep of a row with step 0: %v", err)
	}

	db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('twice', 1, 10), ('twice', 500, 10)")
	if seg, err := s.Reserve(t.Context(), "twice", 10); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Reserve of a tag with two rows: %v, %v, want ErrCorrupt", seg, err)
	}
	if err := s.SetStep(t.Context(), "zero", 1<<40); !errors.Is(err, store.ErrBadTag) {
		t.Errorf("SetStep to more than the column holds: %v, want ErrBadTag", err)
	}
	if err := s.CreateTag(t.Context(), store.Tag{Name: "new", Step: 1 << 40, Next: 1}); !errors.Is(err, store.ErrBadTag) {
		t.Errorf("CreateTag with a step that is more than the column holds: %v, want ErrBadTag", err)
	}
}

func (b *Backend) testManyTags(t *testing.T) {
	const n, batch = 100_000, 5000
	db := b.Database(t)
	s := b.open(t, db.DSN(), "leaf_alloc")
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
	if seg, err := s.Reserve(t.Context(), "tag099999", 7); err != nil || seg.First != n {
		t.Errorf("Reserve: %v, %v", seg, err)
	}
}

// Numbers that the column would round or cut off are never handed out.
func (b *Backend) testColumns(t *testing.T) {
	db := b.Database(t)
	s := b.fresh(t, db, b.Float)
	db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 9007199254740992, 5)")
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrSetup) || !strings.Contains(err.Error(), "max_id") {
		t.Errorf("Check of a floating-point max_id: %v, want ErrSetup", err)
	}
	if seg, err := s.Reserve(t.Context(), "order", 5); !errors.Is(err, store.ErrSetup) {
		t.Errorf("Reserve from a floating-point max_id: %v, %v, want ErrSetup", seg, err)
	}
	db.Exec(t, "DROP TABLE leaf_alloc")

	s = b.fresh(t, db, b.Narrow)
	db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 2147483600, 5)")
	if seg, err := s.Reserve(t.Context(), "order", 40); err != nil || seg.First != 2147483600 {
		t.Errorf("Reserve of what fits: %v, %v", seg, err)
	}
	if seg, err := s.Reserve(t.Context(), "order", 40); !errors.Is(err, store.ErrExhausted) || !strings.Contains(strings.ToLower(err.Error()), "bigint") {
		t.Errorf("Reserve of more than the column holds: %v, %v, want ErrExhausted", seg, err)
	}
	if n := maxID(t, db, "order"); n != 2147483640 {
		t.Errorf("max_id is %d, was 2147483640", n)
	}
}
