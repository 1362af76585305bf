package register

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register/internal/guard"
	"github.com/idworker/idworker/testing/storetest"
)

// lateServer replies to writes after a long delay.
type lateServer struct{ *fakeServer }

func (s lateServer) update(ctx context.Context, tag string, value []byte, revision uint64) (uint64, error) {
	got, err := s.fakeServer.update(ctx, tag, value, revision)
	time.Sleep(2 * guard.PollAge)
	return got, err
}

func (s lateServer) updateMany(ctx context.Context, changes []kv.Write) []kv.Written {
	return updateEach(ctx, s.update, changes)
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
		_, removed, _, err := s.AllTags(t.Context())
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
			runs.Go(func() { s.Run(ctx, nil) })
			away := func(is bool) {
				w.server.mu.Lock()
				w.server.away = is
				w.server.mu.Unlock()
				if tables > 0 {
					w.tables[0].mu.Lock()
					w.tables[0].away = is
					w.tables[0].mu.Unlock()
				}
				time.Sleep(guard.PollAge + 2*pollTimeout)
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
			w.server.now.Full = full
			w.server.mu.Unlock()
			time.Sleep(2 * guard.PollEvery)
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

func (w *world) mustReserve(s *Register, tag string) {
	w.Helper()
	granted, err := storetest.Reserve(w.Context(), s, tag, 10)
	if err != nil {
		w.Fatal(err)
	}
	w.granted.AddSegment(tag, 10, granted.Segment)
}

// pollServer calls before for each poll, and after for each read.
type pollServer struct {
	*fakeServer
	before, after func()
}

func (s pollServer) poll(ctx context.Context) (guard.Poll, error) {
	s.before()
	return s.fakeServer.poll(ctx)
}

func (s pollServer) read(ctx context.Context, tag string) (storedEntry, error) {
	r, err := s.fakeServer.read(ctx, tag)
	s.after()
	return r, err
}

// TestSlowPolls: polls that take longer than the time between two do not end
// granting.
func TestSlowPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.server.loss = 0
		s := newStore(Config{Prefix: prefix, Log: zap.NewNop()}, pollServer{w.server, func() { time.Sleep(2 * guard.PollEvery) }, func() {}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 3 {
			if _, err := storetest.Reserve(ctx, s, "a", 10); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestDoubtBeforeAWrite: if the outcome of another write is unknown by the time
// that an entry has been read, the loader polls again before it writes.
func TestDoubtBeforeAWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.server.loss = 0
		polls, reads := 0, 0
		s := newStore(Config{Prefix: prefix, Log: zap.NewNop()}, w.server)
		s.remote = pollServer{w.server, func() { polls++ }, func() {
			if reads++; reads == 1 {
				s.judge((*guard.Guard).Doubt)
			}
		}}
		if _, err := storetest.Reserve(t.Context(), s, "a", 10); err != nil || polls != 2 {
			t.Errorf("%d polls, %v, want 2", polls, err)
		}
	})
}

// listServer calls listed after it has replied with all entries.
type listServer struct {
	*fakeServer
	listed func()
}

func (s listServer) each(ctx context.Context, visit func(tag string, e listed, written time.Time) bool) error {
	err := s.fakeServer.each(ctx, visit)
	s.listed()
	return err
}

// lostTag opens a loader that was granted IDs of a tag, which the register then
// loses.
func lostTag(t *testing.T) (w *world, s *Register, tag store.Tag) {
	w = newWorld(t, 1, 0)
	w.server.loss, w.ordered = 0, false
	w.server.save()
	s, tag = w.loader(0), store.Tag{Name: "lost", Step: 10, Next: 1}
	w.mustCreate(s, tag)
	w.server.putBack(0, 0, false)
	return w, s, tag
}

func (w *world) mustCreate(s *Register, tag store.Tag) {
	w.Helper()
	granted, err := storetest.ReserveFirst(w.Context(), s, tag, 10)
	if err != nil {
		w.Fatal(err)
	}
	w.granted.AddSegment(tag.Name, 10, granted.Segment)
}

// TestPausedInAcceptance: a loader is paused while it accepts a decision. The
// register is restored and raised again. The loader does not put back a tag
// under the first decision: another loader was granted those IDs.
func TestPausedInAcceptance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, s, tag := lostTag(t)
		w.server.decide(1000)
		var once sync.Once
		s.remote = listServer{w.server, func() {
			once.Do(func() {
				w.mustCreate(w.loader(1), tag) // lost, too
				w.server.putBack(0, 0, false)
				w.server.decide(2000)
			})
		}}
		if err := s.poll(t.Context(), true); !errors.Is(err, guard.ErrChanged) {
			t.Errorf("after a second restore: %v", err)
		}
		if err := s.poll(t.Context(), true); err != nil {
			t.Errorf("the second decision: %v", err)
		}
		w.mustReserve(w.loader(2), tag.Name)
		w.granted.Check(t)
	})
}

// batchServer writes a batch in no time, and then calls a function.
type batchServer struct {
	*fakeServer
	after func()
}

func (s batchServer) updateMany(_ context.Context, changes []kv.Write) []kv.Written {
	written := make([]kv.Written, len(changes))
	s.mu.Lock()
	for i, c := range changes {
		written[i].Revision, written[i].Err = s.write(c.Key, c.Value, c.Revision)
	}
	s.mu.Unlock()
	s.after()
	return written
}

// TestPausedBetweenBatches: a loader that puts back more tags than one batch has
// needs a permit for each batch. The register is restored and raised again after
// the first one.
func TestPausedBetweenBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, s, _ := lostTag(t)
		w.server.decide(1000)
		s.mu.Lock()
		for i := range kv.MaxBatch {
			s.cache[fmt.Sprint("lost.", i)] = storedEntry{entry{Next: 11, Step: 10}, 1}
		}
		s.mu.Unlock()
		s.remote = batchServer{w.server, sync.OnceFunc(func() {
			w.server.putBack(0, guard.PollAge/2, false)
			w.server.decide(2000)
		})}
		if err := s.poll(t.Context(), true); !errors.Is(err, guard.ErrChanged) {
			t.Errorf("after a second restore: %v", err)
		}
		if err := s.poll(t.Context(), true); err != nil || len(w.server.keys) <= kv.MaxBatch {
			t.Errorf("the second decision: %v, %d entries", err, len(w.server.keys))
		}
		for name, e := range w.server.keys {
			if strings.HasPrefix(name, "lost") && e.Next < 2001 {
				t.Errorf("%s is put back at %d", name, e.Next)
			}
		}
	})
}

// TestLateAnswerInAcceptance: a decision is not accepted if an entry that was
// put back may have arrived after another restore and raise.
func TestLateAnswerInAcceptance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, s, _ := lostTag(t)
		w.server.decide(1000)
		s.remote = lateServer{w.server}
		if err := s.poll(t.Context(), true); !errors.Is(err, guard.ErrLate) {
			t.Errorf("a late answer: %v", err)
		}
		if err := s.poll(t.Context(), true); err != nil {
			t.Errorf("the next poll: %v", err)
		}
	})
}

// TestSuspend: the time in suspend counts. After it a loader polls before it
// writes, although the monotonic clock stood still.
func TestSuspend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.server.loss = 0
		s := w.loader(0)
		var asleep time.Duration
		s.now = func() time.Time { return time.Now().Add(asleep) }
		w.mustReserve(s, "a")
		w.server.now.ID = "another"
		asleep = time.Hour
		before := w.server.now.Last
		if seg, err := storetest.Reserve(t.Context(), s, "a", 10); !errors.Is(err, store.ErrRegressed) || w.server.now.Last != before {
			t.Errorf("granted %v, %v; the register is at %d, and was at %d", seg, err, w.server.now.Last, before)
		}
	})
}
