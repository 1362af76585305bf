package e2e

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/soak"
)

// TestNoDuplicateBesideLeaf hands out IDs while Leaf's servers take segments from the same
// row at full speed, on each form of Leaf's table. Every number up to max_id is in exactly
// one segment, either theirs or ours, or in a range that a loader of ours burnt because the
// other one was faster.
func TestNoDuplicateBesideLeaf(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		for name, shape := range d.Shapes {
			t.Run(name, func(t *testing.T) { testBesideLeaf(t, d, shape) })
		}
	})
}

func testBesideLeaf(t *testing.T, d database, shape string) {
	const tag = "order"
	total := soak.Pick[int64](100_000, 1_000_000)
	db := d.find(t)
	db.Exec(t, shape)
	insert(t, db, "'"+tag+"', 1, 50")
	ns := natstest.Start(t)
	granted := listen(t, ns.URL())
	// Small steps, so that many segments change hands.
	args := []string{"--max-batch", "1000", "--max-step", "1000"}
	first, second := on(db.DSN()).startWorker(t, ns.URL(), args...), on(db.DSN()).startWorker(t, ns.URL(), args...)
	all := &ledger{tag: tag}
	leaf := d.startLeaf(t, db.SQL(), tag, 3, 0, all)

	knownToAll(t, ns.URL(), tag, 2)
	begin := time.Now()
	c := startCallers(t, ns.URL(), load{callers: 8, tags: []string{tag}, maxBatch: 1000, timeout: 10 * time.Second})
	natstest.Eventually(t, 5*time.Minute, "so many IDs of ours, and a tenth of Leaf's", func() bool {
		return c.ledgers.ids() >= total && leaf.ids.Load() >= total/100 || t.Failed()
	})
	replies := c.finish()
	took := time.Since(begin)
	leaf.stop()
	burnt, ranges := int64(0), int64(0)
	for _, s := range stats(t, connect(t, ns.URL()), 2) {
		burnt += s.Grants.Burnt
		ranges += s.Loads.Burnt
	}
	first.stop(syscall.SIGTERM)
	second.stop(syscall.SIGTERM)

	c.ledgers.check(t)
	checkOrder(t, granted, replies)
	for _, g := range granted.all {
		all.add([]messages.Range{{First: g.First, Last: g.End - 1}})
	}
	all.check(t)
	const largest = 2 * 1000 // both workers' loads at once
	end := maxID(t, db, tag)
	if gap := end - 1 - all.ids.Load(); gap < 0 || gap > ranges*largest || gap > end/4 {
		t.Errorf("%d numbers are in segments of ours and of Leaf's, max_id is %d, and %d ranges were burnt", all.ids.Load(), end, ranges)
	}
	checkNoneSkipped(t, granted.all, c.ledgers[tag], burnt)
	t.Logf("%d IDs of ours in %v, %d of Leaf's in %d segments beside %d of ours",
		c.ledgers.ids(), took.Round(time.Millisecond), leaf.ids.Load(), leaf.segments.Load(), len(granted.all))
}

// checkNoneSkipped checks that all IDs of each segment that is used up were handed out. Of
// each process's segments, the last two may not be used up, and the first ones were begun
// before the callers.
func checkNoneSkipped(t *testing.T, granted []loads.Grant, ours *ledger, burnt int64) {
	t.Helper()
	byProcess := make(map[string][]loads.Grant)
	for _, g := range granted {
		byProcess[g.Instance] = append(byProcess[g.Instance], g)
	}
	unused := int64(0)
	for process, segments := range byProcess {
		slices.SortFunc(segments, func(a, b loads.Grant) int { return int(a.First - b.First) })
		checked := 0
		for _, g := range segments[min(2, len(segments)):max(2, len(segments)-2)] {
			checked++
			switch n := ours.among(g.First, g.End); n {
			case g.End - g.First:
			case 0:
				unused++
			default:
				t.Errorf("of %s of %s only %d IDs were handed out", fmt.Sprintf("[%d, %d)", g.First, g.End), process, n)
			}
		}
		if checked == 0 {
			t.Errorf("%s used up no segment", process)
		}
	}
	if unused > burnt {
		t.Errorf("%d segments were skipped, of which %d were burnt", unused, burnt)
	}
}

// among counts the IDs from first to before end.
func (l *ledger) among(first, end int64) (n int64) {
	for id := first; id < end; id++ {
		if p, ok := l.pages.Load(id / pageSize); ok && p.(*page)[id%pageSize/64].Load()>>(id%64)&1 == 1 {
			n++
		}
	}
	return n
}
