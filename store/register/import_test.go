package register

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/storetest"
)

// TestImportBesideGrants: an entry that is written after an import has listed the
// entries is merged as it is then.
func TestImportBesideGrants(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h := handle(t, connect(t, s.srv))
	for _, tag := range []string{"high", "low"} {
		s.create(h, tag)
	}
	var high store.Segment
	admin := handle(t, connect(t, s.srv))
	admin.remote = lateWriter{admin.remote, sync.OnceFunc(func() {
		for range 10 {
			high = s.reserve(h, "high", 1)
		}
		s.reserve(h, "low", 1)
		s.create(h, "new")
	})}
	list := []store.Tag{
		{Name: "high", Step: 20, Next: 50, Order: store.Trend}, {Name: "low", Step: 20, Next: 50, Order: store.Trend}, {Name: "new", Step: 20, Next: 50, Order: store.Trend},
	}
	if err := admin.Rewrite(t.Context(), Import{list}, func(Effect) {}); err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[string]int64{"high": high.End, "low": 50, "new": 50} {
		if e := s.entry(tag).entry; e != (entry{Next: want, Step: 10}) {
			t.Errorf("%s: %+v, want step 10 and next %d", tag, e, want)
		}
	}
}

// entryTable looks at the register before a row is inserted.
type entryTable struct {
	*fakeTable
	before func(tag string)
}

func (e entryTable) CreateTag(ctx context.Context, tag store.Tag) error {
	e.before(tag.Name)
	return e.fakeTable.CreateTag(ctx, tag)
}

// TestImportBesideTable: a loader never finds the entry of a tag that is to have
// a row without one: it is marked as removed until there is the row. A removed
// tag gets an entry alone.
func TestImportBesideTable(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cfg := connect(s, s.srv)
	table := newFakeTable(1, 0, "row")
	made := make(map[string]entry)
	cfg.Table = table
	loader := handle(s, cfg)
	if err := errors.Join(
		loader.CreateTag(t.Context(), store.Tag{Name: "again", Step: 10, Next: 30, Order: store.Strict}), loader.RemoveTag(t.Context(), "again"),
	); err != nil {
		t.Fatal(err)
	}
	cfg.Table = entryTable{table, func(tag string) {
		made[tag] = s.entry(tag).entry
		if _, err := storetest.Reserve(t.Context(), loader, tag, 10); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("%s: before there is a row: %v, want ErrNoTag", tag, err)
		}
	}}
	admin := handle(s, cfg)
	list := []store.Tag{
		{Name: "again", Step: 20, Next: 20, Order: store.Strict},
		{Name: "gone", Next: 70, Order: store.Trend},
		{Name: "new", Step: 20, Next: 50, Order: store.Strict},
		{Name: "row", Step: 20, Next: 60, Order: store.Trend},
	}
	planned, changed := make(map[string]Effect), make(map[string]Effect)
	if err := admin.Preview(t.Context(), Import{list}, func(c Effect) { planned[c.Listed.Name] = c }); err != nil {
		t.Fatal(err)
	}
	if err := admin.Rewrite(t.Context(), Import{list}, func(c Effect) { changed[c.Name] = c }); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		entry
		row int64
	}{
		"again": {entry{Next: 30, Order: store.Strict}, 30},
		"gone":  {entry{Next: 70, Removed: true}, 0},
		"new":   {entry{Next: 50, Order: store.Strict}, 50},
		"row":   {entry{Next: 60}, 60},
	} {
		if found := s.entry(name).entry; found != want.entry || table.rows[name] != want.row {
			t.Errorf("%s: %+v, row %d, want %+v", name, found, table.rows[name], want)
		}
		if planned[name] != changed[name] || changed[name].Next != want.Next {
			t.Errorf("%s: planned %+v, done %+v", name, planned[name], changed[name])
		}
	}
	if len(made) != 2 || !made["again"].Removed || !made["new"].Removed {
		t.Errorf("entries before their rows: %+v, want two that are marked", made)
	}
}

// TestSurvey: what a rule would do can be seen of a register that went back, that
// is being raised, or that is missing, and nothing is written.
func TestSurvey(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importTags(1)
	list := []store.Tag{{Name: "lost", Step: 10, Next: 5, Order: store.Trend}, {Name: "t0000", Step: 10, Next: 5, Order: store.Trend}}
	survey := func(want int) {
		t.Helper()
		cfg := connect(s, s.srv)
		cfg.Table = newFakeTable(1, 0, "row", "no tag")
		admin, err := Survey(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		entries, n := 0, 0
		err = admin.Preview(t.Context(), Raise{Target: 1000, List: list}, func(c Effect) {
			if n++; c.Entry > 0 {
				entries++
			}
		})
		others, failed := admin.Others(t.Context())
		if errors.Join(err, failed) != nil || n != 3 || entries != want || len(others) != 1 {
			t.Errorf("%d tags, %d entries, want 3 and %d; others %v, %v", n, entries, want, others, errors.Join(err, failed))
		}
	}
	if _, err := s.admin().Mark(t.Context(), 1000, alone); err != nil {
		t.Fatal(err)
	}
	before := s.lastSequence()
	survey(1)
	if after := s.lastSequence(); after != before {
		t.Errorf("written at %d", after)
	}
	s.delete()
	survey(0)
	s.makeAgain()
	survey(0)
}
