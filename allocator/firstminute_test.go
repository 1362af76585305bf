package allocator_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/testing/tier"
)

// The README's promises about the buffer's runway, and when they begin.
const (
	promisedRunway = 13*time.Minute + 30*time.Second
	firstMinute    = time.Minute
	mostWrites     = 8 // of the store, for one tag in its first minute
)

// traffic is a tag under requests at a constant rate, in virtual time. The
// store answers at once.
type traffic struct {
	*harness
	t      *testing.T
	rate   float64 // IDs per second
	began  time.Duration
	sent   float64 // IDs since then
	writes int     // of the store
}

// newTraffic does not bound the step.
func newTraffic(t *testing.T, step int64) *traffic {
	tr := &traffic{harness: newHarness(allocator.Config{MaxStep: 1 << 40}), t: t}
	tr.step = step
	return tr
}

// flow sends requests of n IDs at the rate, the first without delay. It calls
// after when each was answered, until that returns false.
func (tr *traffic) flow(rate float64, n int64, after func(since time.Duration) bool) {
	tr.t.Helper()
	tr.rate, tr.began, tr.sent, tr.writes = rate, tr.now, 0, 0
	for since := time.Duration(0); ; {
		o := tr.request("order", n)
		tr.writes += tr.grantAll()
		if o.answered != 1 || o.err != nil {
			tr.t.Fatalf("%v/s: %d answers after %v: %v", rate, o.answered, since, o.err)
		}
		if !after(since) {
			return
		}
		tr.sent += float64(n)
		since = time.Duration(tr.sent / rate * float64(time.Second))
		tr.now = tr.began + since
	}
}

// runway is the time that the buffer lasts from now on, at the real rate.
func (tr *traffic) runway() time.Duration {
	return time.Duration(float64(tr.Figures()[0].Left) / tr.rate * float64(time.Second))
}

// setIn has a rate set in, and checks the promises for the time after it.
func (tr *traffic) setIn(what string, rate float64) {
	tr.t.Helper()
	began, inMinute := tr.now, 0
	// A request is answered at each of the first moments, later there may be
	// fewer.
	tr.flow(rate, int64(math.Ceil(rate/100)), func(since time.Duration) bool {
		if since <= firstMinute {
			inMinute = tr.writes
		}
		return since < firstMinute
	})
	if inMinute > mostWrites {
		tr.t.Errorf("%s: %d store writes in the first minute, want %d at most", what, inMinute, mostWrites)
	}
	tr.now = began + firstMinute
	least := tr.runway()
	tr.flow(rate, int64(math.Ceil(rate/2)), func(since time.Duration) bool {
		least = min(least, tr.runway())
		return since < 20*time.Minute
	})
	if least < promisedRunway {
		tr.t.Errorf("%s: memory lasted %v at the worst moment after the first minute, want %v", what, least, promisedRunway)
	}
}

// allRates are 1 to 100,000 per second, close together, and rates at which
// 1,000 IDs barely last.
func allRates() (rates []float64) {
	for r := 1.0; r <= 100_000; r *= tier.Pick(1.3, 1.003) {
		rates = append(rates, r)
	}
	for r := 1.05; r < 2; r += tier.Pick(0.05, 0.001) {
		rates = append(rates, r)
	}
	return append(rates, 440, 500, 99_999, 100_000)
}

// TestRunwayFromTheFirstMinute: at any rate on a fresh tag, after a minute the
// buffer lasts, and continues to last, with few store writes.
func TestRunwayFromTheFirstMinute(t *testing.T) {
	t.Parallel()
	for _, rate := range allRates() {
		newTraffic(t, 1000).setIn(fmt.Sprintf("%.4g/s", rate), rate)
	}
}

// TestRunwayAfterASurge: the same if the rate of a tag changes, by however
// much, at any point of a segment.
func TestRunwayAfterASurge(t *testing.T) {
	t.Parallel()
	const parts = 40 // of a segment
	const few = 80   // usually every eightieth combination
	for i, before := range []float64{0.01, 0.07, 1, 1.3, 17, 550, 1000} {
		for j, factor := range []float64{1.5, 2, 3, 5, 10, 30, 100, 1000, 100_000 / before} {
			for part := tier.Pick((7*i+11*j)%few, 0); part < parts; part += tier.Pick(few, 1) {
				tr := newTraffic(t, 1000)
				settled := 2*time.Hour + time.Duration(part)*20*time.Minute/parts
				tr.flow(before, int64(math.Ceil(before)), func(since time.Duration) bool { return since < settled })
				tr.setIn(fmt.Sprintf("%v/s after %v/s for %v", before*factor, before, settled), before*factor)
			}
		}
	}
}
