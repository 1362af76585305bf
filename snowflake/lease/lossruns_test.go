package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/testing/tier"
)

// TestLosses: processes hold worker IDs, are cut off, stop, and start, while the
// clock bucket loses entries once or twice: it goes back with or without the
// leases, or is replaced. Clocks are off by almost as much as allowed, unless
// nothing but processes shows the loss. Holders of a
// worker ID own disjoint time, and some time after the last loss processes have
// worker IDs again.
func TestLosses(t *testing.T) {
	t.Parallel()
	first := firstSeed(t)
	for seed := first; seed < first+tier.Seeds(30, 1000) && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) { lossesOnce(t, seed) })
		if t.Failed() {
			t.Logf("IDWORKER_SEED=%d", seed)
		}
	}
}

func lossesOnce(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 77))
	w := newWorld()
	w.layout = layoutOf(4)
	b := []time.Duration{2 * time.Minute, 5 * time.Minute}[rng.IntN(2)]
	w.declare(b.String())
	type loss struct {
		kind int
		ago  time.Duration
	}
	losses := make([]loss, 1+rng.IntN(2))
	silent := false
	for i := range losses {
		longest := []time.Duration{time.Second, 10 * time.Second, time.Minute, 5 * time.Minute}[rng.IntN(4)]
		losses[i] = loss{rng.IntN(3), time.Duration(rng.Int64N(int64(longest)))}
		// Leases go back, too, or are too old to show what the bucket lost: then
		// clocks must be right, see "What remains" in the proof.
		silent = silent || losses[i].kind == 1 || losses[i].kind == 0 && losses[i].ago < modelTTL
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []*process
	var together atomic.Bool // nobody may be cut off, either
	connect := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range all {
			p.net.set(func() { p.net.dead = false })
		}
	}
	start := func(name string) {
		p := w.process(name, rng.Uint64())
		if !silent {
			p.setClock(time.Duration(rng.Int64N(int64(9800*time.Millisecond))) - 4900*time.Millisecond)
		}
		mu.Lock()
		all = append(all, p)
		mu.Unlock()
		if rng.IntN(4) == 0 {
			p.given = new(rng.Int64N(16))
		}
		own, req := rand.New(rand.NewPCG(rng.Uint64(), 2)), rand.New(rand.NewPCG(rng.Uint64(), 3))
		wg.Go(func() {
			for ctx.Err() == nil {
				run, stop := context.WithCancel(ctx)
				done := make(chan struct{})
				m := p.manager()
				go func() { defer close(done); _ = m.Run(run, p.notify) }()
				pause.For(ctx, time.Duration(own.Int64N(int64(10*time.Minute))))
				if own.IntN(2) == 0 && ctx.Err() == nil && !together.Load() {
					p.net.set(func() { p.net.dead = true })
					pause.For(ctx, time.Duration(own.Int64N(int64(b))))
					if own.IntN(2) == 0 {
						p.net.set(func() { p.net.dead = false })
						pause.For(ctx, time.Duration(own.Int64N(int64(3*time.Minute))))
					}
				}
				stop()
				<-done
				p.mu.Lock()
				p.held = false
				p.gens = nil // it ended
				p.mu.Unlock()
				p.net.set(func() { p.net.dead = false })
				pause.For(ctx, time.Duration(own.Int64N(int64(time.Minute))))
			}
		})
		wg.Go(func() {
			for ctx.Err() == nil {
				p.issue(req, 1)
				pause.For(ctx, time.Duration(req.Int64N(int64(time.Second))))
			}
		})
	}
	for i := range 6 {
		start(fmt.Sprint(i))
	}
	kind := ""
	for _, l := range losses {
		pause.For(ctx, 3*time.Minute+time.Duration(rng.Int64N(int64(3*time.Minute))))
		restore, restoreLeases := w.clocks.rewind(), w.workers.rewind()
		if rng.IntN(2) == 0 { // an outage before
			w.leaderless(true)
			pause.For(ctx, time.Duration(rng.Int64N(int64(b))))
			w.leaderless(false)
		}
		pause.For(ctx, l.ago)
		switch l.kind {
		case 0:
			kind += fmt.Sprintf("the bucket goes back by %v; ", l.ago)
			if l.ago < modelTTL { // only the holder of a new entry may know
				together.Store(true)
				connect()
			}
			restore()
		case 1:
			kind += fmt.Sprintf("leases, too, go back by %v; ", l.ago)
			together.Store(true)
			connect()
			restore()
			restoreLeases()
		case 2:
			kind += "replaced; "
			w.clocks.empty()
			wait := fenceLength(modelTTL) + 11*time.Second
			pause.For(ctx, wait+time.Duration(rng.Int64N(int64(time.Minute))))
			w.config.expire(ClockIDKey)
		}
	}
	lossAt := time.Now()
	pause.For(ctx, 2*b+3*time.Minute)
	connect()
	cancel()
	wg.Wait()
	ctx2, cancel2 := context.WithCancel(t.Context())
	var fresh []*process
	for i := range 5 {
		p := w.process(fmt.Sprint("fresh", i), rng.Uint64())
		fresh = append(fresh, p)
		wg.Go(func() { _ = p.manager().Run(ctx2, p.notify) })
	}
	time.Sleep(modelTTL + 11*time.Second + 20*time.Second)
	for _, p := range fresh {
		if p.holding() == nil {
			t.Errorf("%s%v later: %s has no worker ID: %s", kind, time.Since(lossAt), p.name, w.clocks.latest(lostKey).value)
		}
	}
	cancel2()
	wg.Wait()
	for _, problem := range w.overlaps() {
		t.Errorf("seed %d: %s%s", seed, kind, problem)
	}
}
