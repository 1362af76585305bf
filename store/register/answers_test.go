package register

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/storetest"
)

// TestAnswerBelowSeen: a register is restored after the last poll, and then a
// write lands in it. The reply has a sequence that is not above the highest
// seen. Nothing is granted.
func TestAnswerBelowSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.server.loss = 0
		a, b := w.loader(0), w.loader(1)
		for _, tag := range []string{"a", "b"} {
			if _, err := storetest.Reserve(t.Context(), a, tag, 10); err != nil {
				t.Fatal(err)
			}
		}
		w.server.save()
		if _, err := storetest.Reserve(t.Context(), b, "b", 10); err != nil {
			t.Fatal(err)
		}
		if err := a.poll(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		w.server.putBack(0, 0, false)
		if seg, err := storetest.Reserve(t.Context(), a, "a", 10); !errors.Is(err, store.ErrRegressed) || a.Stopped() == nil {
			t.Errorf("granted %v, %v", seg, err)
		}
	})
}

// lateServer replies to writes after a long delay.
type lateServer struct{ *fakeServer }

func (s lateServer) update(ctx context.Context, tag string, value []byte, revision uint64) (uint64, error) {
	got, err := s.fakeServer.update(ctx, tag, value, revision)
	time.Sleep(2 * pollAge)
	return got, err
}

// TestLateAnswer: the reply comes so long after the poll that preceded the
// write that the register may have regressed in between. Nothing is granted.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.server.loss = 0
		s := newStore(Config{Prefix: prefix, Log: zap.NewNop()}, lateServer{w.server})
		if err := s.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if seg, err := storetest.Reserve(t.Context(), s, "a", 10); !errors.Is(err, errLate) {
			t.Errorf("granted %v, %v", seg, err)
		}
	})
}

// TestPollBeforeWrite: a loader that was silent for a while polls before it
// writes, and so detects that the register was replaced, or is being raised.
func TestPollBeforeWrite(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*poll){
		"made again": func(p *poll) { p.ID = "another" },
		"raised":     func(p *poll) { p.raising = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, 0)
				w.server.loss = 0
				s := w.loader(0)
				if _, err := storetest.Reserve(t.Context(), s, "a", 10); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * pollEvery)
				w.server.mu.Lock()
				change(&w.server.now)
				before := w.server.now.Last
				w.server.mu.Unlock()
				if seg, err := storetest.Reserve(t.Context(), s, "a", 10); !errors.Is(err, store.ErrRegressed) || w.server.now.Last != before {
					t.Errorf("granted %v, %v; the register is at %d, and was at %d", seg, err, w.server.now.Last, before)
				}
			})
		})
	}
}

// TestRowGoesBack: a regressed row is raised at once, and the next range is
// served.
func TestRowGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 1)
		w.server.loss, w.tables[0].back = 0, 0
		s := w.loader(0)
		had, err := storetest.Reserve(t.Context(), s, "a", 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		w.tables[0].mu.Lock()
		w.tables[0].rows["a"] = 1
		w.tables[0].mu.Unlock()
		for range 3 {
			if seg, err := storetest.Reserve(t.Context(), s, "a", 10); err != nil || seg.First < had.End {
				t.Errorf("got %v, %v; %v was granted before", seg, err, had)
			}
		}
		if f := s.Figures(); f.RowsBack != 1 {
			t.Errorf("%d rows went back, want 1", f.RowsBack)
		}
	})
}

// besideLeaf is a table from which Leaf's servers reserve 10 numbers just before
// a row is deleted.
type besideLeaf struct {
	*fakeTable
	end int64 // of Leaf's last range
}

func (b *besideLeaf) RemoveTag(ctx context.Context, tag string, next int64) error {
	seg, err := b.Reserve(ctx, tag, 10)
	b.end = seg.End
	return errors.Join(err, b.fakeTable.RemoveTag(ctx, tag, next))
}

// TestRemoveBesideLeaf: a removed tag comes back above all that Leaf's servers
// reserved until its row was deleted.
func TestRemoveBesideLeaf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 1)
		w.server.loss, w.tables[0].back = 0, 0
		table := &besideLeaf{fakeTable: w.tables[0]}
		s := newStore(Config{Prefix: prefix, Log: zap.NewNop(), Table: table}, w.server)
		if err := errors.Join(s.start(t.Context()), s.RemoveTag(t.Context(), "a")); err != nil {
			t.Fatal(err)
		}
		removed, err := s.Removed(t.Context())
		if err != nil || len(removed) != 1 || removed[0].Next < table.end {
			t.Errorf("removed are %v, %v; Leaf's servers have all below %d", removed, err, table.end)
		}
	})
}

// TestProbe: a store with a table answers if its database does. Without a table,
// the register has to. A probe that writes leaves an entry as it was.
func TestProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for tables := range 2 {
			w := newWorld(t, 1, tables)
			w.server.loss = 0
			s := w.loader(0)
			var runs sync.WaitGroup
			ctx, stop := context.WithCancel(t.Context())
			runs.Go(func() { s.Run(ctx) })
			away := func(is bool) {
				w.server.mu.Lock()
				w.server.away = is
				w.server.mu.Unlock()
				if tables > 0 {
					w.tables[0].mu.Lock()
					w.tables[0].away = is
					w.tables[0].mu.Unlock()
				}
				time.Sleep(pollAge + 2*pollTimeout)
			}
			away(false)
			for _, is := range []bool{false, true, false} {
				away(is)
				if err := s.Probe(t.Context(), false); (err != nil) != is {
					t.Errorf("%d tables, away %v: %v", tables, is, err)
				}
			}
			if _, err := storetest.Reserve(t.Context(), s, "a", 10); err != nil {
				t.Fatal(err)
			}
			before := s.cached("a")
			if err := s.Probe(t.Context(), true); err != nil {
				t.Error(err)
			}
			if after := s.cached("a"); after.entry != before.entry || after.revision <= before.revision {
				t.Errorf("entry %+v before a probe that writes, %+v afterwards", before, after)
			}
			stop()
			runs.Wait()
		}
	})
}

// TestNearlyFull: a register that is nearly full makes no tag of a template, and
// grants to all others.
func TestNearlyFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.server.loss = 0
		s := w.loader(0)
		for _, full := range []bool{false, true, false} {
			w.server.mu.Lock()
			w.server.now.full = full
			w.server.mu.Unlock()
			time.Sleep(2 * pollEvery)
			if _, err := storetest.Reserve(t.Context(), s, "a", 10); err != nil {
				t.Errorf("full %v: %v", full, err)
			}
			_, err := storetest.ReserveFirst(t.Context(), s, store.Tag{Name: fmt.Sprint("new", time.Now().Unix()), Step: 10, Next: 1}, 10)
			if errors.Is(err, store.ErrNoRoom) != full || err != nil && !full {
				t.Errorf("full %v: a new tag: %v", full, err)
			}
		}
	})
}

// TestPutBackToBeforeADecision: a register is restored, raised, and then
// restored to another backup from before that decision. It has regressed,
// though its sequence is higher.
func TestPutBackToBeforeADecision(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.server.loss = 0
		s := w.loader(0)
		reserve := func() {
			t.Helper()
			if seg, err := storetest.Reserve(t.Context(), s, "a", 10); err == nil {
				w.granted.AddSegment("a", 10, seg.Segment)
			} else {
				t.Log(err)
			}
		}
		w.server.save() // backup 0
		for range 20 {
			reserve()
		}
		w.server.save() // backup 1
		reserve()
		time.Sleep(2 * pollEvery)
		w.server.putBack(0, 0, false)
		w.server.decide(1_000_000)
		time.Sleep(2 * pollEvery)
		reserve()
		time.Sleep(2 * pollEvery)
		w.server.putBack(1, 0, false)
		time.Sleep(2 * pollEvery)
		if seg, err := storetest.Reserve(t.Context(), s, "b", 10); !errors.Is(err, store.ErrRegressed) {
			t.Errorf("granted from a state before the decision: %v, %v", seg, err)
		}
		reserve()
		w.granted.Check(t)
	})
}
