package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/tier"
)

// duplicate copies a struct with all that it holds by value, locks and atomics
// included, as a snapshot of a process does.
func duplicate[T any](from *T) *T {
	to := new(T)
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem())
	return to
}

// copyHold returns a copy of a hold that uses the connections of m. The caller
// makes sure that the hold is not used during the call.
func copyHold(h *holder, m *Manager) *holder {
	c := duplicate(h)
	c.cfg, c.manager = &m.cfg, m
	c.gen = duplicate(h.gen)
	c.others, c.uses, c.woken = m.others, &m.uses, make(chan struct{}, 1)
	c.uses.all[h.lease.key] = holdUse{h.id, inUse}
	c.clock = duplicate(h.clock)
	m.sightings = maps.Clone(*h.clock.seen)
	c.clock.cfg, c.clock.server, c.clock.workers, c.clock.diff, c.clock.seen = &m.cfg, m.server, m.workers, new(atomic.Int64), &m.sightings
	c.lease.bucket, c.lease.sent = m.workers, slices.Clone(h.lease.sent)
	c.fence.bucket, c.fence.sent = m.clocks, slices.Clone(h.fence.sent)
	return c
}

// copyHolder copies a process that holds a worker ID, at a point where its own
// goroutine calls. It returns the copy and its hold; nil without a worker ID.
func (p *process) copyHolder(seed uint64) (c *process, m *Manager, held *holder) {
	running := p.running.Load()
	if running == nil || running.current.Load() == nil {
		return nil, nil, nil
	}
	h := running.current.Load()
	c = p.w.process(p.name, seed)
	c.original, c.skew, c.ahead = p, p.skew, p.ahead
	p.net.set(func() { c.net.rate, c.net.asked[h.id] = p.net.rate, p.net.asked[h.id] })
	m = c.manager()
	m.cfg.TTL, m.previous, m.fences, m.outage = running.cfg.TTL, running.previous, running.fences, running.outage
	m.known, m.identity = maps.Clone(running.known), running.identity
	c.running.Store(m)
	defer func() { c.gens = []*snowflake.Generator{held.gen} }()
	p.w.mu.Lock() // so that no ID is being issued
	defer p.w.mu.Unlock()
	held = copyHold(h, m)
	p.w.copies = append(p.w.copies, ownedTime{h.worker, h.gen.Last(), max(h.hi.Load(), c.net.asked[h.id])})
	return c, m, held
}

// copyAtRandom copies a process once, if it holds a worker ID, in the middle of
// a call. The copy then runs as the process does.
func (p *process) copyAtRandom(ctx context.Context, wg *sync.WaitGroup, rng *rand.Rand) {
	after := rng.IntN(1500)
	p.net.set(func() {
		p.net.point = func() {
			after--
			if after > 0 || ctx.Err() != nil {
				return
			}
			c, m, h := p.copyHolder(rng.Uint64())
			if c == nil {
				return
			}
			p.net.set(func() { p.net.point = nil })
			requests := rand.New(rand.NewPCG(rng.Uint64(), 5))
			wg.Go(func() {
				// A failed release only delays a successor.
				if _ = m.keep(ctx, h, c.notify); ctx.Err() == nil {
					_ = m.Run(ctx, c.notify)
				}
			})
			wg.Go(func() { c.request(ctx, requests) })
		}
	})
}

// TestCopyOfAHolder: a process that holds a worker ID is copied at any moment,
// even in the middle of a write, and both run with all its memory. At least one
// gets ErrLost; both do if one has the lease and the other the fence. IDs
// issued by both lie below the hi that was known or requested at the copy. If
// the copy resumes only after that time, as from a stored snapshot, nothing is
// issued twice.
func TestCopyOfAHolder(t *testing.T) {
	t.Parallel()
	first := firstSeed(t)
	for _, later := range []bool{false, true} {
		t.Run(fmt.Sprintf("later=%v", later), func(t *testing.T) {
			t.Parallel()
			twice := 0
			for seed := first; seed < first+tier.Pick[uint64](40, 400); seed++ {
				synctest.Test(t, func(t *testing.T) { twice += copyOnce(t, seed, later) })
			}
			if later == (twice > 0) {
				t.Errorf("in %d runs both issued the same time", twice)
			}
		})
	}
}

// copyOnce returns 1 if both issued the same time.
func copyOnce(t *testing.T, seed uint64, later bool) int {
	rng := rand.New(rand.NewPCG(seed, 6))
	w := newWorld()
	p := w.process("p", seed)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	request := func(p *process) {
		rng := rand.New(rand.NewPCG(seed, 7))
		for ctx.Err() == nil {
			p.issue(rng, 1)
			pause.For(ctx, 100*time.Millisecond)
		}
	}
	var lost atomic.Int64
	notify := func(p *process) func(State) {
		return func(s State) {
			if errors.Is(s.Err, ErrLost) {
				lost.Add(1)
				<-ctx.Done() // it seeks no other worker ID
			}
			p.notify(s)
		}
	}
	after := 1 + rng.IntN(30)
	p.net.point = func() {
		if after--; after > 0 {
			return
		}
		c, m, h := p.copyHolder(seed + 1000)
		if c == nil {
			return
		}
		p.net.set(func() { p.net.point = nil })
		known := w.copies[0].to
		if later {
			w.copies = nil
		}
		wg.Go(func() {
			if later {
				time.Sleep(time.Until(w.layout.TimeAt(known)))
			} else {
				time.Sleep(c.net.some(modelTTL / 3))
			}
			wg.Go(func() { request(c) })
			_ = m.keep(ctx, h, notify(c))
		})
	}
	m := p.manager()
	p.running.Store(m)
	wg.Go(func() { _ = m.Run(ctx, notify(p)) })
	wg.Go(func() { request(p) })
	time.Sleep(5 * modelTTL)
	if lost.Load() == 0 {
		t.Errorf("seed %d: %d got ErrLost", seed, lost.Load())
	}
	cancel()
	wg.Wait()
	problems := append(w.wrong, w.overlaps()...)
	for _, problem := range problems {
		t.Errorf("seed %d: %s", seed, problem)
	}
	w.copies = nil
	return min(len(w.overlaps()), 1)
}

func mustOpen(t *testing.T, cfg Config) *Manager {
	t.Helper()
	m, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
