package sql_test

import (
	dbsql "database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/testing/tier"
)

// Leaf's servers, several tables and an administrator who changes the step all
// use the same row: no ID is handed out twice, and no ID between two ranges is
// left out.
func (b *suite) testBesideLeaf(t *testing.T, create string) {
	enough := int64(tier.Pick(20_000, 200_000))
	db := b.Database(t)
	admin := fresh(t, db, create)
	if err := admin.CreateTag(t.Context(), store.Tag{Name: "order", Step: 50, Next: 1}); err != nil {
		t.Fatal(err)
	}
	var ledger order.Ledger
	var ours, leafs atomic.Int64
	enoughOf := func() bool { return ours.Load() >= enough && leafs.Load() >= enough/10 || t.Failed() }
	var wg sync.WaitGroup
	for g := range 3 {
		s := leaftest.Open(t, db.DSN(), "leaf_alloc")
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 3))
			last := int64(0)
			for !enoughOf() {
				step := 1 + random.Int64N(500)
				seg, err := s.Reserve(t.Context(), "order", step)
				if err != nil {
					t.Errorf("Reserve: %v", err)
					return
				}
				if seg.First < last {
					t.Errorf("%v does not lie above %d", seg, last)
				}
				last = seg.End
				ledger.AddSegment("order", step, seg)
				ours.Add(step)
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for !enoughOf() {
				seg, step, err := b.Segment(t.Context(), db.SQL(), "order")
				if err != nil {
					t.Errorf("Leaf: %v", err)
					return
				}
				ledger.AddSegment("order", step, seg)
				leafs.Add(step)
			}
		})
	}
	wg.Go(func() {
		random := rand.New(rand.NewPCG(0, 4))
		for !enoughOf() {
			if err := admin.SetStep(t.Context(), "order", 1+random.Int64N(300)); err != nil {
				t.Errorf("SetStep: %v", err)
				return
			}
		}
	})
	wg.Wait()
	ledger.Check(t)
	if sum, end := ledger.Sum("order"), ledger.End("order"); sum != end-1 || maxID(t, db, "order") != end {
		t.Errorf("%d IDs of [1, %d) were handed out, max_id is %d", sum, end, maxID(t, db, "order"))
	}
	t.Logf("%d IDs of ours, %d of Leaf's, %d segments", ours.Load(), leafs.Load(), ledger.Len())
}

// A row is deleted while Leaf's servers use it: all that they got lies below
// the value with which it was deleted.
func (b *suite) testRemoveBesideLeaf(t *testing.T) {
	db := b.Database(t)
	s := fresh(t, db, b.Shapes["official"])
	for range tier.Pick(20, 200) {
		if err := s.CreateTag(t.Context(), store.Tag{Name: "order", Step: 10, Next: 1}); err != nil {
			t.Fatal(err)
		}
		var ledger order.Ledger
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for {
					seg, step, err := b.Segment(t.Context(), db.SQL(), "order")
					if err != nil {
						if !errors.Is(err, dbsql.ErrNoRows) {
							t.Errorf("Leaf: %v", err)
						}
						return
					}
					ledger.AddSegment("order", step, seg)
				}
			})
		}
		next, err := int64(0), store.ErrChanged
		for room := int64(0); errors.Is(err, store.ErrChanged); room += 10 {
			row, failed := s.Find(t.Context(), "order")
			if failed != nil {
				t.Fatal(failed)
			}
			next = row.Next + room
			err = s.RemoveTag(t.Context(), "order", next)
		}
		wg.Wait()
		ledger.Check(t)
		if end := ledger.End("order"); err != nil || end > next {
			t.Fatalf("DUPLICATE: Leaf got all below %d, the row was deleted as at most %d: %v", end, next, err)
		}
	}
}
