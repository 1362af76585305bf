package ledger_test

import (
	"testing"

	"github.com/idworker/idworker/store/ledger"
	"github.com/idworker/idworker/testing/natstest"
)

// TestRaiseListOfAStoreThatWentBack: who moves the counters elsewhere gets what was granted, not
// what a table says that went back.
func TestRaiseListOfAStoreThatWentBack(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	i := install(t, srv)
	old, promoted := table(t, srv, "old"), table(t, srv, "promoted")
	create(t, old, "order", 1)
	create(t, promoted, "order", 1) // the replica that lacked the last commits
	s := i.loader(old, ledger.Require)
	fill(t, s)
	for n := range int64(5) {
		expect(t, s, "order", 1+10*n) // 1-50 are granted
	}
	// All loaders are stopped, the database fails over, and the counters are moved.
	l := i.loader(promoted, ledger.Require)
	exported, err := l.Tags(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.RaiseList(t.Context(), exported); err != nil {
		t.Fatal(err)
	}
	moved := table(t, srv, "moved")
	for _, tag := range exported {
		if err := moved.CreateTag(t.Context(), tag); err != nil {
			t.Fatal(err)
		}
	}
	seg, err := moved.Reserve(t.Context(), "order", 10)
	if err != nil {
		t.Fatal(err)
	}
	if seg.First < 51 {
		t.Errorf("%v is granted after the move, but 1-50 were granted before", seg)
	}
}
