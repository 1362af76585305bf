// Package goroutines starts goroutines that a single owner ends and awaits.
package goroutines

import (
	"context"
	"sync"
)

// Group is the goroutines of an owner. A [sync.WaitGroup] alone is not enough
// where callbacks start goroutines at any time: its Go must not race with its
// Wait.
type Group struct {
	ctx    context.Context // ends when Stop is called
	cancel context.CancelFunc

	mu      sync.Mutex
	stopped bool
	running sync.WaitGroup
}

// New returns a group without goroutines.
func New() *Group {
	ctx, cancel := context.WithCancel(context.Background())
	return &Group{ctx: ctx, cancel: cancel}
}

// Context ends when Stop is called.
func (g *Group) Context() context.Context { return g.ctx }

// Start runs f in a goroutine. The context of f ends when Stop is called. After Stop,
// Start does nothing and returns false.
func (g *Group) Start(f func(ctx context.Context)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return false
	}
	g.running.Go(func() { f(g.ctx) })
	return true
}

// Stop ends the context of all goroutines and returns when they have ended. No
// goroutine is started from then on.
func (g *Group) Stop() {
	g.mu.Lock()
	g.stopped = true
	g.mu.Unlock()
	g.cancel()
	g.running.Wait()
}
