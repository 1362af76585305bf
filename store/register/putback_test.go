package register

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/idworker/idworker/internal/kv"
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
	if _, err := raiseAll(t.Context(), admin, raise, alone, func(Effect) {}); err != nil {
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
	err = admin.Preview(t.Context(), r, func(c Effect) {
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
	if err := admin.Rewrite(t.Context(), r, func(Effect) {}); err != nil {
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

// secondWriter has another administrator write an entry once, after it was
// rewritten.
type secondWriter struct {
	remote
	write func()
}

func (w secondWriter) updateMany(ctx context.Context, changes []kv.Write) []kv.Written {
	written := w.remote.updateMany(ctx, changes)
	w.write()
	return written
}

// TestRowOfAnEntryThatIsWrittenAgain: a row is created once, above what another
// wrote to its entry after that was put back.
func TestRowOfAnEntryThatIsWrittenAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cfg := connect(s, s.srv)
	table := newFakeTable(1, 0)
	cfg.Table = table
	admin := handle(s, cfg)
	server := admin.remote
	admin.remote = secondWriter{server, sync.OnceFunc(func() {
		e := s.entry("lost")
		e.Next = 5000
		if _, err := server.update(t.Context(), "lost", e.encode(), e.revision); err != nil {
			t.Error(err)
		}
	})}
	reports := 0
	list := []store.Tag{{Name: "lost", Step: 10, Next: 40, Order: store.Strict}}
	if err := admin.Rewrite(t.Context(), Raise{Target: 1000, List: list}, func(Effect) { reports++ }); err != nil {
		t.Fatal(err)
	}
	if e := s.entry("lost"); e.Removed || e.Next <= 5000 || table.rows["lost"] != e.Next || reports != 1 {
		t.Errorf("entry %+v, row %d, %d reports", e.entry, table.rows["lost"], reports)
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
	}}, func(c Effect) {
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
