package messages

import "time"

// SetWall replaces the wall clock.
func (p *Prefetcher) SetWall(wall func() time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wall = wall
}

// Discard empties the buffer, as when it is too old.
func (p *Prefetcher) Discard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discard()
}

// Counts returns the IDs left in the current chunk, those behind it, and those
// returned to callers.
func (p *Prefetcher) Counts() (current, stock, handed int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.current.Load(); c != nil {
		current = max(c.n-c.used.Load(), 0)
	}
	return current, p.stock.ids, p.countHanded()
}
