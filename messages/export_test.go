package messages

import (
	"time"

	"github.com/nats-io/nats.go"
)

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

// Flight returns the IDs that requests in flight will bring, the target, and the
// largest batch at present.
func (p *Prefetcher) Flight() (ids, target, batch int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests.ids, p.pace.target, min(p.requests.maxBatch, p.requests.batch)
}

// Targets returns the target of a new prefetcher after each step: a time that
// passes, and the number of IDs that are taken in it.
func Targets(cfg PrefetchConfig, steps []Step) (targets []int64, err error) {
	if cfg, err = cfg.withDefaults(); err != nil {
		return nil, err
	}
	now, handed := time.Now(), int64(0)
	p := newPace(cfg, now)
	for _, s := range steps {
		now, handed = now.Add(s.Passed), handed+s.Taken
		targets = append(targets, p.updateTarget(now, handed))
	}
	return targets, nil
}

// Step is a step of [Targets].
type Step struct {
	Passed time.Duration
	Taken  int64
}

// NewObserved is NewClient with a function that gets each transient error.
func NewObserved(nc *nats.Conn, onTransient func(error)) *Client {
	c := NewClient(nc, DefaultPrefix)
	c.onTransient = onTransient
	return c
}
