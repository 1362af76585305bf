package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// duplicate copies a struct with all that it holds by value, locks and atomics included, as
// a snapshot of a process does.
func duplicate[T any](from *T) *T {
	to := new(T)
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem())
	return to
}

// copyHold returns a copy of a hold that goes on with the connections of m. The caller makes
// sure that nobody uses the hold meanwhile.
func copyHold(h *hold, m *Manager) *hold {
	c := duplicate(h)
	c.cfg = &m.cfg
	c.gen = duplicate(h.gen)
	c.clock = duplicate(h.clock)
	c.clock.cfg, c.clock.server, c.clock.workers, c.clock.diff = &m.cfg, m.server, m.workers, new(atomic.Int64)
	c.lease.bucket, c.lease.sent = m.workers, slices.Clone(h.lease.sent)
	c.fence.bucket, c.fence.sent = m.clocks, slices.Clone(h.fence.sent)
	return c
}

// copyHolder copies a process that holds a worker ID, at a point where its own goroutine
// calls, and returns the copy and its hold; nil if it holds none.
func (p *process) copyHolder(seed uint64) (c *process, m *Manager, held *hold) {
	running := p.running.Load()
	if running == nil || running.current.Load() == nil {
		return nil, nil, nil
	}
	h := running.current.Load()
	c = p.w.process(p.name, seed)
	c.original, c.skew, c.ahead = p, p.skew, p.ahead
	p.net.set(func() { c.net.rate, c.net.asked[h.id] = p.net.rate, p.net.asked[h.id] })
	m = c.manager()
	m.cfg.TTL, m.previous, m.longestFence = running.cfg.TTL, running.previous, running.longestFence
	c.running.Store(m)
	defer func() { c.gens = []*snowflake.Generator{held.gen} }()
	p.w.mu.Lock() // so that no ID is being issued
	defer p.w.mu.Unlock()
	held = copyHold(h, m)
	p.w.copies = append(p.w.copies, window{h.worker, h.gen.Last(), max(h.hi.Load(), c.net.asked[h.id])})
	return c, m, held
}

// copyAtRandom copies a process once, if it holds a worker ID then, in the middle of a call. The
// copy goes on as the process does.
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
				if _ = m.keep(ctx, h, c.notify); ctx.Err() == nil { // what could not be released delays a successor
					_ = m.Run(ctx, c.notify)
				}
			})
			wg.Go(func() { c.request(ctx, requests) })
		}
	})
}

// TestCopyOfAHolder: a process that holds a worker ID is copied at any moment, also in the
// middle of a write, and both go on with all its memory. One of them gets ErrLost, or both do
// if one has the lease by then and the other the fence. What both issue lies before the hi that
// was known, or asked for, when the copy was made. If the copy goes on after that time only, as one does that is restored
// from a snapshot, nothing is issued twice.
func TestCopyOfAHolder(t *testing.T) {
	for _, later := range []bool{false, true} {
		t.Run(fmt.Sprintf("later=%v", later), func(t *testing.T) {
			twice := 0
			for seed := range uint64(tier.Pick(40, 400)) {
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

// TestCopyOfAHolderOnAServer is the same with real buckets, and compares all IDs.
func TestCopyOfAHolderOnAServer(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	provision(t, net)
	for _, later := range []bool{false, true} {
		t.Run(fmt.Sprintf("later=%v", later), func(t *testing.T) {
			t.Parallel()
			cfg := config(newJS(t, net))
			m, copied := mustOpen(t, cfg), mustOpen(t, config(newJS(t, net)))
			h := mustSeek(t, m)
			mustNext(t, h.gen)
			if err := h.renew(t.Context(), time.Now().Add(testTTL)); err != nil {
				t.Fatal(err)
			}
			c := copyHold(h, copied)
			known := h.hi.Load()
			ctx, stop := context.WithCancel(t.Context())
			var first, second heir
			var wg sync.WaitGroup
			wg.Go(func() { first.run(ctx, m, h) })
			if later {
				time.Sleep(time.Until(cfg.Layout.TimeAt(known)))
			}
			wg.Go(func() { second.run(ctx, copied, c) })
			long := known + int64(2*testTTL/cfg.Layout.Spec().Unit)
			natstest.Eventually(t, "one of them goes on far beyond what both knew", func() bool {
				return first.goneOn(long) || second.goneOn(long)
			})
			stop()
			wg.Wait()
			if lost := first.losses() + second.losses(); lost != 1 {
				t.Errorf("%d losses", lost)
			}
			issued := append(first.ranges, second.ranges...)
			slices.SortFunc(issued, func(a, b snowflake.Range) int { return cmp.Compare(a.First, b.First) })
			twice, bad := 0, 0
			for i, r := range issued[1:] {
				if r.First > issued[i].Last {
					continue
				}
				if twice++; later || cfg.Layout.Timestamp(r.First) >= known {
					bad++
				}
			}
			t.Logf("%d IDs, of which both issued %d", len(issued), twice)
			if bad > 0 {
				t.Errorf("%d IDs were issued twice, and are not of the time that both knew to be theirs", bad)
			}
		})
	}
}

func mustOpen(t *testing.T, cfg Config) *Manager {
	t.Helper()
	m, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// heir is one of two that go on with the same hold.
type heir struct {
	mu     sync.Mutex
	ranges []snowflake.Range
	last   int64
	errs   []error
}

// run keeps the hold, and issues IDs until ctx ends.
func (r *heir) run(ctx context.Context, m *Manager, h *hold) {
	var issuing sync.WaitGroup
	issuing.Go(func() {
		for ; ctx.Err() == nil; pause.For(ctx, time.Millisecond) {
			r.mu.Lock()
			r.ranges, _ = h.gen.NextN(r.ranges, 1)
			r.last = h.gen.Last()
			r.mu.Unlock()
		}
	})
	_ = m.keep(ctx, h, func(s State) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if s.Err != nil {
			r.errs = append(r.errs, s.Err)
		}
	})
	issuing.Wait()
}

func (r *heir) goneOn(known int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last > known
}

func (r *heir) losses() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(r.errs), func(err error) bool { return !errors.Is(err, ErrLost) }))
}
