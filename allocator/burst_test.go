package allocator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/testing/tier"
)

// burst sends requests for n IDs of an ID each within a millisecond.
func (tr *traffic) burst(n int64) {
	tr.t.Helper()
	end := n
	tr.flow(float64(n)*1000, 1, func(time.Duration) bool { end--; return end > 0 })
}

// reserved is how many IDs the store has given so far.
func (tr *traffic) reserved() int64 { return tr.next - 1 }

// TestBurstsReserveLittle: a momentary rate does not count for long. A burst of
// requests reserves less than 600 times its IDs, whether the tag is fresh, at
// rest, or busy.
func TestBurstsReserveLittle(t *testing.T) {
	t.Parallel()
	const step = 1000
	settle := func(rate float64) func(*traffic) {
		return func(tr *traffic) {
			tr.flow(rate, 1, func(since time.Duration) bool { return since < time.Hour })
		}
	}
	for what, before := range map[string]func(*traffic){
		"fresh":   func(*traffic) {},
		"at rest": func(tr *traffic) { tr.request("order", 1); tr.grantAll(); tr.now += 24 * time.Hour },
		"slow":    settle(0.01),
		"busy":    settle(10),
	} {
		for _, n := range []int64{1, 19, 20, 100, 1000, tier.Pick[int64](10_000, 100_000)} {
			t.Run(fmt.Sprintf("%s/%d", what, n), func(t *testing.T) {
				tr := newTraffic(t, step)
				before(tr)
				// busy is the demand of 20 minutes, a third of the hour.
				had, busy := tr.reserved(), tr.sent/3
				tr.burst(n)
				tr.now += 2 * time.Hour
				tr.Tick()
				tr.grantAll()
				if got, most := tr.reserved()-had, step+600*n+int64(busy); got > most {
					t.Errorf("%d IDs within a millisecond had %d reserved, want %d at most", n, got, most)
				}
			})
		}
	}
}

// TestRepeatedBursts: bursts of 100 requests every minute for a day leave a
// step that is bounded by a burst, and seldom load.
func TestRepeatedBursts(t *testing.T) {
	t.Parallel()
	const n = 100
	tr := newTraffic(t, 1000)
	writes := 0
	for began := tr.now; tr.now < began+24*time.Hour; tr.now += time.Minute {
		tr.burst(n)
		writes += tr.writes
		if step := tr.Figures()[0].Step; step > 600*n {
			t.Fatalf("after %v the step is %d, want %d at most", tr.now-began, step, 600*n)
		}
	}
	if most := 24 * 4; writes > most {
		t.Errorf("%d store writes in a day, want %d at most: one in 15 minutes", writes, most)
	}
}

// TestFewRequestsLoadOnce: a tag with a few requests is loaded once, even if
// they came fast or over a long time.
func TestFewRequestsLoadOnce(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Millisecond, time.Second, time.Hour} {
		h := order(1000)
		writes := 0
		for range 19 {
			h.request("order", 1)
			writes += h.grantAll()
			h.now += pause
			h.Tick()
		}
		if writes != 1 {
			t.Errorf("19 requests every %v: %d store writes, want 1", pause, writes)
		}
	}
}

// TestCeilingBoundsMemory: if the largest step is too small for a rate, the
// buffer has no more than two segments, loaded one at a time.
func TestCeilingBoundsMemory(t *testing.T) {
	t.Parallel()
	tr := &traffic{harness: newHarness(allocator.Config{MaxStep: 10_000}), t: t}
	tr.step = 1000
	most := int64(0)
	tr.flow(1000, 10, func(since time.Duration) bool {
		most = max(most, tr.Figures()[0].Left)
		return since < 10*time.Minute
	})
	if most > 20_000 {
		t.Errorf("%d IDs in memory, want 20,000 at most", most)
	}
	if loads := int(tr.sent/10_000) + 5; tr.writes > loads {
		t.Errorf("%d store writes, want %d at most", tr.writes, loads)
	}
}
