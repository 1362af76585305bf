package register

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/store"
)

// TestAnswerBelowSeen: a write that lands in a register that was put back after the last
// poll is answered with a sequence that is not above what had been seen. Nothing is granted.
func TestAnswerBelowSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.server.loss = 0
		a, b := w.loader(0), w.loader(1)
		for _, tag := range []string{"a", "b"} {
			if _, err := a.Reserve(t.Context(), tag, 10); err != nil {
				t.Fatal(err)
			}
		}
		w.server.save()
		if _, err := b.Reserve(t.Context(), "b", 10); err != nil {
			t.Fatal(err)
		}
		if err := a.poll(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		w.server.putBack(0, 0, false)
		if seg, err := a.Reserve(t.Context(), "a", 10); !errors.Is(err, store.ErrRegressed) || a.Stopped() == nil {
			t.Errorf("granted %v, %v", seg, err)
		}
	})
}

// lateServer answers writes long after it was asked.
type lateServer struct{ *fakeServer }

func (s lateServer) update(ctx context.Context, tag string, value []byte, revision uint64) (uint64, error) {
	got, err := s.fakeServer.update(ctx, tag, value, revision)
	time.Sleep(2 * pollAge)
	return got, err
}

// TestLateAnswer: between the poll behind a write and an answer that comes long after it
// the register may have gone back. Nothing is granted.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.server.loss = 0
		s := newStore(Config{Prefix: prefix, Log: zap.NewNop()}, lateServer{w.server})
		if err := s.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if seg, err := s.Reserve(t.Context(), "a", 10); !errors.Is(err, errLate) {
			t.Errorf("granted %v, %v", seg, err)
		}
	})
}

// TestPollBeforeWrite: a loader that was silent for a while polls before it writes, and so
// finds the register to be another one, or to be raised at the moment.
func TestPollBeforeWrite(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*poll){
		"made again": func(p *poll) { p.id = "another" },
		"raised":     func(p *poll) { p.raising = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, 0)
				w.server.loss = 0
				s := w.loader(0)
				if _, err := s.Reserve(t.Context(), "a", 10); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * pollEvery)
				w.server.mu.Lock()
				change(&w.server.now)
				before := w.server.now.last
				w.server.mu.Unlock()
				if seg, err := s.Reserve(t.Context(), "a", 10); !errors.Is(err, store.ErrRegressed) || w.server.now.last != before {
					t.Errorf("granted %v, %v; the register is at %d, and was at %d", seg, err, w.server.now.last, before)
				}
			})
		})
	}
}

// TestRowGoesBack: a row that went back is raised at once, and is the next to be served.
func TestRowGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 1)
		w.server.loss, w.tables[0].back = 0, 0
		s := w.loader(0)
		had, err := s.Reserve(t.Context(), "a", 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		w.tables[0].mu.Lock()
		w.tables[0].rows["a"] = 1
		w.tables[0].mu.Unlock()
		for range 3 {
			if seg, err := s.Reserve(t.Context(), "a", 10); err != nil || seg.First < had.End {
				t.Errorf("got %v, %v; %v was granted before", seg, err, had)
			}
		}
		if f := s.Figures(); f.RowsBack != 1 {
			t.Errorf("%d rows went back, want 1", f.RowsBack)
		}
	})
}

// TestPutBackToBeforeADecision: a register that is put back, raised, and then put back to
// another backup from before that decision went back, though its sequence is higher.
func TestPutBackToBeforeADecision(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.server.loss = 0
		s := w.loader(0)
		reserve := func() {
			t.Helper()
			if seg, err := s.Reserve(t.Context(), "a", 10); err == nil {
				w.granted.Add("a", 10, seg.Segment)
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
		if seg, err := s.Reserve(t.Context(), "b", 10); !errors.Is(err, store.ErrRegressed) {
			t.Errorf("granted from a state before the decision: %v, %v", seg, err)
		}
		reserve()
		w.granted.Check(t)
	})
}
