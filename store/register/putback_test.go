package register

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/testing/storetest"
)

// TestLostRegisterIsMadeMarked: a register that is missing is created marked as
// being raised, as the installation's, and with revisions above all earlier
// ones: nothing grants from it before the decision, and no late write to the
// lost one fits.
func TestLostRegisterIsMadeMarked(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	loader := handle(s, connect(s, s.srv))
	if err := loader.CreateTag(t.Context(), store.Tag{Name: "a", Step: 10, Next: 1, Order: store.Trend}); err != nil {
		t.Fatal(err)
	}
	before := s.lastSequence()
	s.delete()
	const first = 1_000_000
	admin, err := OpenToRaise(t.Context(), connect(s, s.srv), 1, first, true)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pollLeader(t.Context(), s.js, BucketName(prefix))
	if err != nil {
		t.Fatal(err)
	}
	agreed, _, err := agreement.Lookup(t.Context(), s.js, prefix, ConfigKey)
	if err != nil || found.Mark == "" || found.ID != agreed {
		t.Errorf("marked %v, identity %q, want that of the installation, %q, %v", found.Mark != "", found.ID, agreed, err)
	}
	if seg, err := storetest.Reserve(t.Context(), loader, "a", 10); err == nil {
		t.Errorf("granted %v from a register that is being restored", seg)
	}
	raise := Raise{Target: 500, List: []store.Tag{{Name: "a", Step: 10, Next: 11, Order: store.Strict}}}
	if _, err := raiseAll(t.Context(), admin, raise, alone, func(Change) {}); err != nil {
		t.Fatal(err)
	}
	e := s.entry("a")
	if e.Next != 500 || e.Order != store.Strict || e.revision < first || e.revision <= before {
		t.Errorf("entry %+v at revision %d, want next 500, strict, a revision above %d", e.entry, e.revision, first)
	}
}

// TestPutBack: what the register lacks of a list comes back with its order, also
// a removed tag, and one that was deleted by hand. Other entries stay, but a tag
// that was strict is strict again.
func TestPutBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	admin := handle(s, connect(s, s.srv))
	for _, name := range []string{"lower", "byhand"} {
		if err := admin.CreateTag(t.Context(), store.Tag{Name: name, Step: 10, Next: 5, Order: store.Trend}); err != nil {
			t.Fatal(err)
		}
	}
	bucket, err := s.js.KeyValue(t.Context(), BucketName(prefix))
	if err == nil {
		err = bucket.Delete(t.Context(), "byhand")
	}
	if err != nil {
		t.Fatal(err)
	}
	list := []store.Tag{
		{Name: "byhand", Step: 20, Next: 7, Order: store.Strict},
		{Name: "gone", Next: 9, Order: store.Trend},
		{Name: "lost", Step: 30, Next: 8, Order: store.Strict},
		{Name: "lower", Step: 40, Next: 6, Order: store.Strict},
	}
	r := Raise{Target: 1000, List: list}
	var lost, lower, orders []string
	err = admin.Preview(t.Context(), r, func(c Change) {
		switch {
		case c.Listed == nil:
			t.Errorf("%+v is not in the list", c)
		case c.Entry == 0:
			lost = append(lost, c.Name)
		case c.Entry < c.Listed.Next:
			lower = append(lower, strings.Clone(c.Name))
		}
		if c.Listed != nil && c.Entry > 0 && c.WasOrder != c.Listed.Order {
			orders = append(orders, strings.Clone(c.Name))
		}
	})
	if err != nil || len(lost) != 3 || !slices.Equal(lower, []string{"lower"}) || !slices.Equal(orders, lower) {
		t.Errorf("lost %q, lower %q, orders %q, %v", lost, lower, orders, err)
	}
	if err := admin.Rewrite(t.Context(), r, func(Change) {}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]entry{
		"byhand": {Next: 1000, Step: 20, Order: store.Strict},
		"gone":   {Next: 1000, Removed: true},
		"lost":   {Next: 1000, Step: 30, Order: store.Strict},
		"lower":  {Next: 1000, Step: 10, Order: store.Strict},
	} {
		if found := s.entry(name).entry; found != want {
			t.Errorf("%s: %+v, want %+v", name, found, want)
		}
	}
}

// TestPutBackBesideTable: the entry of a strict tag that has a row is put back
// as strict. A row that is missing is created, unless its tag was removed here.
func TestPutBackBesideTable(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cfg := connect(s, s.srv)
	table := newFakeTable(1, 0, "strict", "trend", "removed")
	cfg.Table = table
	admin := handle(s, cfg)
	for _, tag := range []store.Tag{
		{Name: "rowless", Step: 10, Next: 50, Order: store.Strict}, {Name: "gone", Step: 10, Next: 5, Order: store.Trend},
		{Name: "later", Step: 10, Next: 1, Order: store.Strict},
	} {
		if err := admin.CreateTag(t.Context(), tag); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(admin.RemoveTag(t.Context(), "gone"), table.RemoveTag(t.Context(), "rowless", 50), table.RemoveTag(t.Context(), "later", 1)); err != nil {
		t.Fatal(err)
	}
	err := admin.Rewrite(t.Context(), Raise{Target: 1000, List: []store.Tag{
		{Name: "gone", Step: 10, Next: 9, Order: store.Trend},
		{Name: "lost", Step: 10, Next: 40, Order: store.Strict},
		{Name: "rowless", Step: 10, Next: 60, Order: store.Strict},
		{Name: "strict", Step: 10, Next: 30, Order: store.Strict},
		{Name: "trend", Step: 10, Next: 20, Order: store.Trend},
	}}, func(Change) {})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		entry
		row int64
	}{
		"gone":    {entry{Next: 1000, Removed: true}, 0},
		"later":   {entry{Next: 1000, Order: store.Strict, Removed: true}, 0},
		"lost":    {entry{Next: 1000, Order: store.Strict}, 1000},
		"rowless": {entry{Next: 1000, Order: store.Strict}, 1000},
		"strict":  {entry{Next: 1000, Order: store.Strict}, 1000},
		"trend":   {entry{Next: 1000}, 1000},
	} {
		if found := s.entry(name).entry; found != want.entry || table.rows[name] != want.row {
			t.Errorf("%s: %+v, row %d, want %+v", name, found, table.rows[name], want)
		}
	}
}

// TestPutBackHeld: tags that workers hold come back if the register has
// forgotten them. Other entries stay as they are, with their orders, and so does
// the marker of a tag that was deleted by hand.
func TestPutBackHeld(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	admin := handle(s, connect(s, s.srv))
	for _, name := range []string{"byhand", "known", "order"} {
		if err := admin.CreateTag(t.Context(), store.Tag{Name: name, Step: 10, Next: 5, Order: store.Trend}); err != nil {
			t.Fatal(err)
		}
	}
	bucket, err := s.js.KeyValue(t.Context(), BucketName(prefix))
	if err == nil {
		err = bucket.Delete(t.Context(), "byhand")
	}
	if err != nil {
		t.Fatal(err)
	}
	var forgotten []string
	err = admin.Rewrite(t.Context(), Raise{Target: 1000, Workers: []store.Tag{
		{Name: "byhand", Step: 20, Next: 7, Order: store.Trend},
		{Name: "known", Step: 20, Next: 9, Order: store.Trend},
		{Name: "lost", Step: 30, Next: 8, Order: store.Strict},
		{Name: "order", Step: 40, Next: 6, Order: store.Strict},
	}}, func(c Change) {
		if c.Forgotten {
			forgotten = append(forgotten, c.Name)
		}
	})
	if err != nil || !slices.Equal(forgotten, []string{"lost"}) {
		t.Errorf("forgotten are %q, %v", forgotten, err)
	}
	for name, want := range map[string]entry{
		"byhand": {},
		"known":  {Next: 1000, Step: 10},
		"lost":   {Next: 1000, Step: 30, Order: store.Strict},
		"order":  {Next: 1000, Step: 10},
	} {
		if found := s.entry(name).entry; found != want {
			t.Errorf("%s: %+v, want %+v", name, found, want)
		}
	}
}

// TestLostRegisterWaitsForPermits: a loader that has a permit from before the
// loss, and no entry of a tag, cannot create it in the new register.
func TestLostRegisterWaitsForPermits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one, two := handle(s, connect(s, s.srv)), handle(s, connect(s, s.srv))
	tag := store.Tag{Name: "a", Step: 10, Next: 1, Order: store.Trend}
	if _, err := storetest.ReserveFirst(t.Context(), one, tag, 10); err != nil {
		t.Fatal(err)
	}
	if err := two.poll(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	s.delete()
	if _, err := OpenToRaise(t.Context(), connect(s, s.srv), 1, 1_000_000, false); err != nil {
		t.Fatal(err)
	}
	if again, err := storetest.ReserveFirst(t.Context(), two, tag, 10); err == nil {
		t.Errorf("DUPLICATE: %v", again)
	}
}
