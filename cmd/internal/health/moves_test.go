package health

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// loaders are stores of an installation of its own, on one table.
type loaders []*backend.Segments

func newLoaders(t *testing.T, db *dbtest.DB, n int) (all loaders) {
	t.Helper()
	source, err := backend.Parse(db.DSN(), "leaf_alloc")
	if err != nil {
		t.Fatal(err)
	}
	js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
	if err := register.Create(t.Context(), js, messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	for range n {
		opened, err := source.Open(t.Context(), register.Config{JetStream: js, Prefix: messages.DefaultPrefix})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = opened.Close() })
		all = append(all, opened)
	}
	return all
}

func reserve(t *testing.T, from *backend.Segments, tag string) {
	t.Helper()
	if _, err := from.Reserve(t.Context(), tag, []store.Want{{Step: 10, Most: 10}}); err != nil {
		t.Error(err)
	}
}

// judge returns what status says of the table.
func (l loaders) judge() (said string) {
	var reports []worker.Report
	for _, each := range l {
		reports = append(reports, worker.Report{Role: worker.RoleLoader, Moves: each.Figures().Moves})
	}
	for _, d := range new(Installation).judgeMoves(reports) {
		said += string(d.Severity) + " " + d.String()
	}
	return said
}

// TestMovedTable: Leaf's servers and a second installation on one table are
// seen. Three loaders that race for a row are not taken for another program, and
// neither is an UPDATE by hand, or a restart.
func TestMovedTable(t *testing.T) {
	t.Parallel()
	db := dbtest.MySQL(t)
	db.Exec(t, leaftest.MySQL.Shapes["official"])
	for _, tag := range []string{"order", "of-leaf", "of-both"} {
		db.Exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('"+tag+"', 1, 10)")
	}
	own := newLoaders(t, db, 3)
	var racing sync.WaitGroup
	for _, each := range own {
		racing.Go(func() {
			for range 200 {
				reserve(t, each, "order")
			}
		})
	}
	racing.Wait()
	discarded := 0
	for _, each := range own {
		discarded += len(each.Figures().Moves.Discarded)
	}
	if said := own.judge(); said != "" || discarded == 0 {
		t.Errorf("three loaders, %d ranges discarded: %q", discarded, said)
	}
	for range 2 {
		reserve(t, own[0], "order")
		db.Exec(t, "UPDATE leaf_alloc SET max_id = max_id + 5 WHERE biz_tag = 'order'")
	}
	reserve(t, own[0], "order")
	if said := own.judge(); said != "" {
		t.Errorf("an UPDATE by hand: %q", said)
	}
	const warning = "warning table: another program moves rows, as of tag "
	alternate := func(tag string, other func()) {
		for range store.MinMoves + 1 {
			reserve(t, own[0], tag)
			other()
		}
	}
	alternate("of-leaf", func() {
		if _, _, err := leaftest.MySQL.Segment(t.Context(), db.SQL(), "of-leaf"); err != nil {
			t.Fatal(err)
		}
	})
	if said := own.judge(); !strings.HasPrefix(said, warning+"of-leaf") {
		t.Errorf("Leaf: %q", said)
	}
	second := newLoaders(t, db, 1)
	alternate("of-both", func() { reserve(t, second[0], "of-both") })
	if said := second.judge(); !strings.HasPrefix(said, warning+"of-both") {
		t.Errorf("the second installation: %q", said)
	}
	if said := own.judge(); !strings.HasPrefix(said, warning+"of-both and others") {
		t.Errorf("beside a second installation: %q", said)
	}
}

// TestMovesWithoutEvidence: gaps prove nothing before the latest start of a
// loader, while one is silent, or beside one of version 0.2.0, which does not
// report the ranges that it discarded.
func TestMovesWithoutEvidence(t *testing.T) {
	t.Parallel()
	gaps := &store.Moves{Since: now.Add(-time.Hour)}
	for n := range int64(store.MinMoves) {
		gaps.Skipped = append(gaps.Skipped, store.Move{Tag: "order", First: 100 * n, End: 100*n + 10, At: now})
	}
	with := func(moves *store.Moves) []worker.Report {
		return []worker.Report{{Role: worker.RoleLoader, Moves: gaps}, {Role: worker.RoleWorker}, {Role: worker.RoleLoader, Moves: moves}}
	}
	if found := new(Installation).judgeMoves(with(&store.Moves{Since: now.Add(-time.Minute)})); len(found) != 1 {
		t.Errorf("%+v, want a warning", found)
	}
	for what, found := range map[string][]Diagnosis{
		"a restart":      new(Installation).judgeMoves(with(&store.Moves{Since: now.Add(time.Minute)})),
		"version 0.2.0":  new(Installation).judgeMoves(with(nil)),
		"a silent one":   (&Installation{Silent: []Silent{{}}}).judgeMoves(with(&store.Moves{})),
		"one is covered": new(Installation).judgeMoves(with(&store.Moves{Discarded: []store.Move{{Tag: "order", First: 105, End: 106}}})),
	} {
		if len(found) > 0 {
			t.Errorf("%s: %+v", what, found)
		}
	}
}
