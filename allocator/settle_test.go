package allocator_test

import (
	"fmt"
	"testing"

	"github.com/idworker/idworker/testing/tier"
)

const ceiling = 1_000_000

// The loads after which the step has to be right: when traffic leaves it halves
// with each; 2^20 is the ceiling.
const settledAfter = 25

// rates and steps are in all decades, beside the numbers that divide well.
var (
	rates = []float64{0.01, 0.07, 0.3, 1, 4.1, 17, 97, 550, 1111, 1700, 9_300, 120_000, 1_000_000}
	steps = []int64{1, 9, 100, 1300, 47_000, ceiling}
)

// wantSettled fails the test unless segments last 15 to 30 minutes. Where the
// configured step lasts longer already, or the ceiling not as long, segments
// have that size.
func (f *flow) wantSettled(when string, configured int64) {
	f.t.Helper()
	f.load(settledAfter)
	const n = 24
	f.load(n)
	for i, life := range f.lives(n) {
		step := f.loads[len(f.loads)-n+i].step
		seconds := func(step int64) float64 { return float64(step) / f.rate }
		switch {
		case seconds(configured) >= 1800:
			if step != configured {
				f.t.Fatalf("%s: step %d, want the configured one, which is enough", when, step)
			}
		case seconds(ceiling) < 900:
			if step != ceiling {
				f.t.Fatalf("%s: step %d, want the ceiling", when, step)
			}
		// A request is 1 % of a segment, and at least an ID.
		case life.Seconds() < 900*0.98-1/f.rate || life.Seconds() > 1800*1.02+1/f.rate:
			f.t.Fatalf("%s: a segment of %d lasted %v, want 15 to 30 minutes; all: %v", when, step, life, f.lives(n))
		}
	}
}

// TestStepSettles: at any rate and configured step, a segment comes to
// last 15 to 30 minutes, and stays so; after a surge, too, and after its end.
func TestStepSettles(t *testing.T) {
	t.Parallel()
	for i, rate := range rates {
		for j, configured := range steps {
			if (i+j)%tier.Pick(3, 1) != 0 {
				continue
			}
			t.Run(fmt.Sprintf("rate=%v/step=%d", rate, configured), func(t *testing.T) {
				f := newFlow(t, rate, configured, ceiling)
				f.wantSettled("from cold", configured)
				f.rate = rate * 100
				f.wantSettled("in a surge", configured)
				f.rate = rate
				f.wantSettled("after the surge", configured)
				// Slower, and the clock would overflow.
				f.rate = max(rate/100, rates[0])
				f.wantSettled("when traffic leaves", configured)
			})
		}
	}
}

// TestStepOfOneThatIsEnough: a suitable configured step stays as it is, from
// the first load on.
func TestStepOfOneThatIsEnough(t *testing.T) {
	f := newFlow(t, 1, 1200, ceiling)
	f.load(10)
	for i, l := range f.loads {
		if l.step != 1200 {
			t.Errorf("load %d asked for %d, want the configured 1200", i+1, l.step)
		}
	}
}
