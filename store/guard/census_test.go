package guard_test

import (
	"context"
	"testing"
	"time"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/guard"
)

// shown is a register whose watch shows some marks, and then nothing more.
type shown struct {
	store.Store
	marks []store.Mark
	seen  chan struct{}
}

func (s *shown) Watch(ctx context.Context, see func(store.Mark), current func()) error {
	for _, m := range s.marks {
		see(m)
	}
	current()
	close(s.seen)
	<-ctx.Done()
	return ctx.Err()
}

func (s *shown) Mark(_ context.Context, _ string) (store.Mark, error) {
	return s.marks[len(s.marks)-1], nil
}
func (s *shown) Position(context.Context) (uint64, time.Time, error) { return 3, time.Time{}, nil }
func (s *shown) Restore(context.Context, store.Mark) error           { return nil }
func (s *shown) Restored(context.Context) error                      { return nil }

// TestCountedOnce: a tag whose key somebody deletes by hand, and that comes again, is one tag of its template, by
// what is told and by what is counted.
func TestCountedOnce(t *testing.T) {
	s := &shown{seen: make(chan struct{}), marks: []store.Mark{
		{Tag: "chat.1", End: 11, Revision: 1}, {Tag: "chat.1", Deleted: true, Revision: 2}, {Tag: "chat.1", End: 31, Revision: 3},
	}}
	g := guard.New(s, "test", nil)
	appeared := 0
	g.Appeared = func(string) { appeared++ }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); g.Run(ctx) }()
	<-s.seen
	g.Count(func(string) bool { return true }, func(n int64) {
		if n != 1 || appeared != 1 {
			t.Errorf("counted %d, told %d times, want once", n, appeared)
		}
	})
	cancel()
	<-ended
}
