package guard_test

import (
	"context"
	"testing"
	"time"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/guard"
	"github.com/idworker/idworker/testing/natstest"
)

// scripted is a store and a register whose marks come when the test says so.
type scripted struct {
	counter
	see  chan func(store.Mark)
	does func(seg store.Segment) // after a reservation
}

func (s *scripted) Reserve(ctx context.Context, tag string, step int64) (store.Segment, error) {
	seg, err := s.counter.Reserve(ctx, tag, step)
	s.does(seg)
	return seg, err
}

func (s *scripted) Watch(ctx context.Context, see func(store.Mark), current func()) error {
	current()
	s.see <- see
	<-ctx.Done()
	return ctx.Err()
}

func (s *scripted) Mark(_ context.Context, tag string) (store.Mark, error) {
	return store.Mark{Tag: tag, End: s.next, Revision: 1 << 40}, nil
}

func (s *scripted) Position(context.Context) (uint64, time.Time, error) {
	return 1 << 40, time.Time{}, nil
}
func (s *scripted) Restore(context.Context, store.Mark) error { return nil }
func (s *scripted) Restored(context.Context) error            { return nil }

// What the watch shows of this process's own writes, at whatever time, proves nothing: not that
// the register went back, and not that another loader was granted the range. What it shows of
// others while the store is asked has the range burnt.
func TestEchoesProveNothing(t *testing.T) {
	inner := &scripted{counter: counter{next: 1}, see: make(chan func(store.Mark), 8)}
	g := guard.New(inner, "test", nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go g.Run(ctx)
	see := <-inner.see
	revision := uint64(1 << 40)
	var late []store.Mark
	inner.does = func(seg store.Segment) {
		revision++
		mark := store.Mark{Tag: "order", End: seg.End, Revision: revision, Own: true, Answer: true}
		see(mark)
		for _, m := range late {
			see(m)
		}
		mark.Answer = false
		late = []store.Mark{mark} // with the next one
	}
	for n := range int64(5) {
		expect(t, g, 1+10*n)
	}
	one := inner.does
	inner.does = func(seg store.Segment) {
		inner.does = one
		see(store.Mark{Tag: "order", End: seg.End, Revision: revision + 1})
		revision++
	}
	expect(t, g, 61)
	if f := g.Figures(); f != (guard.Figures{}) {
		t.Errorf("something went back: %+v", f)
	}

	// A write with a revision that had been used proves it, and is not granted.
	revision = 100
	ctx, done := context.WithTimeout(t.Context(), time.Second)
	defer done()
	if seg, err := g.Reserve(ctx, "order", 10); err == nil {
		t.Errorf("%v was granted", seg)
	}
	natstest.Eventually(t, "it to be counted", func() bool { return g.Figures().Register == 1 })
}
