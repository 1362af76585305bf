package register

import (
	"context"
	"sync"
)

// turns serializes the reservations of each tag in this process: they would only lose
// races against each other. The zero value is ready for use.
type turns struct {
	mu   sync.Mutex
	tags map[string]*turn
}

type turn struct {
	free  chan struct{} // holds a token while the turn is free
	users int
}

// take waits for the turn of a tag, which lasts until done is called.
func (t *turns) take(ctx context.Context, tag string) (done func(), err error) {
	t.mu.Lock()
	if t.tags == nil {
		t.tags = make(map[string]*turn)
	}
	mine := t.tags[tag]
	if mine == nil {
		mine = &turn{free: make(chan struct{}, 1)}
		mine.free <- struct{}{}
		t.tags[tag] = mine
	}
	mine.users++
	t.mu.Unlock()
	select {
	case <-mine.free:
		return func() { mine.free <- struct{}{}; t.leave(tag, mine) }, nil
	case <-ctx.Done():
		t.leave(tag, mine)
		return nil, ctx.Err()
	}
}

func (t *turns) leave(tag string, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.users--; mine.users == 0 {
		delete(t.tags, tag)
	}
}
