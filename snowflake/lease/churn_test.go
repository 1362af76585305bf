package lease

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/testing/tier"
)

// TestHoldersComeAndGo: 36 at a time share 16 worker IDs, and half of them
// crash: nothing arrives any more, and they go on issuing until their time is
// over. No two holders of a worker ID overlap, and each gets a worker ID.
func TestHoldersComeAndGo(t *testing.T) {
	t.Parallel()
	first := firstSeed(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(4)
		var mu sync.Mutex
		var longest time.Duration
		var wg sync.WaitGroup
		for lane := range uint64(36) {
			rng := rand.New(rand.NewPCG(first+lane, 9))
			wg.Go(func() {
				for i := range tier.Pick(3, 20) {
					p := w.process(fmt.Sprintf("%d-%d", lane, i), rng.Uint64())
					waited, ok := p.comeAndGo(t, rng)
					if !ok {
						t.Errorf("process %s had no worker ID for %v", p.name, waited)
						return
					}
					mu.Lock()
					longest = max(longest, waited)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for _, problem := range append(w.wrong, w.overlaps()...) {
			t.Error(problem)
		}
		t.Logf("%d holders, %d IDs; waited %v at most", w.holds, w.ids, longest)
		if longest < modelTTL/2 {
			t.Error("there always was a free one, so nothing was learnt")
		}
	})
}

// comeAndGo is the life of a process, which ends in a crash or a clean stop. It
// returns the time that the process waited for a worker ID, and whether it got
// any.
func (p *process) comeAndGo(t *testing.T, rng *rand.Rand) (waited time.Duration, ok bool) {
	defer p.start(t.Context())()
	for began := time.Now(); p.holding() == nil; waited = time.Since(began) {
		if waited > time.Hour {
			return waited, false
		}
		time.Sleep(time.Second)
	}
	issue := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Duration(rng.Int64N(int64(time.Second)))) {
			p.issue(rng, 1+rng.Int64N(100))
		}
	}
	issue(time.Duration(rng.Int64N(int64(modelTTL))))
	if rng.IntN(2) == 0 {
		p.net.set(func() { p.net.dead = true })
		issue(2 * modelTTL)
	}
	return waited, true
}
