package worker

import (
	"context"
	"sync"
)

// goroutines belong to one owner, who ends and awaits them all with one call. A
// sync.WaitGroup alone is not enough where callbacks start goroutines at any time, since
// its Go must not race with its Wait.
type goroutines struct {
	ctx    context.Context // ends when stop is called
	cancel context.CancelFunc

	mu      sync.Mutex
	stopped bool
	running sync.WaitGroup
}

func newGoroutines() *goroutines {
	ctx, cancel := context.WithCancel(context.Background())
	return &goroutines{ctx: ctx, cancel: cancel}
}

// start runs f in a goroutine of its own. The context of f ends when stop is called. After
// stop, start does nothing and returns false.
func (g *goroutines) start(f func(ctx context.Context)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return false
	}
	g.running.Go(func() { f(g.ctx) })
	return true
}

// stop ends the context of all goroutines and returns when they have ended. No more are
// started from then on.
func (g *goroutines) stop() {
	g.mu.Lock()
	g.stopped = true
	g.mu.Unlock()
	g.cancel()
	g.running.Wait()
}
