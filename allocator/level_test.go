package allocator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/tier"
)

const (
	ceiling   = 1_000_000
	unbounded = 1 << 40 // a ceiling

	// settledAfter is the number of loads after which a rate has lasted. While
	// a burst lasts, the buffer grows by a third with each.
	settledAfter = 60
)

// rates and steps are in all decades, beside the numbers that divide well.
var (
	rates = []float64{0.01, 0.07, 0.3, 1, 4.1, 17, 97, 550, 1111, 1700, 9_300, 120_000, 1_000_000}
	steps = []int64{1, 9, 100, 1300, 47_000, ceiling}
)

// wantSettled fails the test unless a load takes IDs for 16 minutes, half of a
// full buffer. It takes the configured step if that lasts for longer, and the
// ceiling if that does not.
func (f *flow) wantSettled(when string) {
	f.t.Helper()
	f.load(settledAfter)
	const n = 24
	f.load(n)
	want := min(max(16*60*f.rate, float64(f.step)), ceiling)
	for _, l := range f.loads[len(f.loads)-n:] {
		// The tag is checked at each fortieth of a segment, and a request has a
		// hundredth.
		if got := float64(l.Step); got < 0.96*want-1 || got > 1.06*want+2 {
			f.t.Fatalf("%s: a load of %v IDs, want %v", when, got, want)
		}
	}
}

// TestLoadsOfALastingRate: at any rate and configured step, a load comes to
// take IDs for 16 minutes, and stays so; after a surge, too, and after its end.
func TestLoadsOfALastingRate(t *testing.T) {
	t.Parallel()
	for i, rate := range rates {
		for j, configured := range steps {
			if (i+j)%tier.Pick(3, 1) != 0 {
				continue
			}
			t.Run(fmt.Sprintf("rate=%v/step=%d", rate, configured), func(t *testing.T) {
				f := newFlow(t, rate, configured, ceiling)
				f.wantSettled("from cold")
				f.rate = rate * 100
				f.wantSettled("in a surge")
				f.rate = rate
				f.wantSettled("after the surge")
				// Slower, and the clock would overflow.
				f.rate = max(rate/100, rates[0])
				f.wantSettled("when traffic leaves")
			})
		}
	}
}

// history is what a tag was used for before a burst, and after it.
type history struct {
	what string
	rate float64 // for an hour before, unless the tag is fresh
	rest time.Duration
}

// TestBurstsReserveLittle: a burst of n IDs within less than a minute reserves
// at most n others and one and a half steps, whether the tag is fresh, at rest
// or slow, and whatever follows. A busy tag also reserves numbers for its own
// rate.
func TestBurstsReserveLittle(t *testing.T) {
	t.Parallel()
	const step = 1000
	for _, h := range []history{{"fresh", 0.5, 0}, {"at rest", 0.01, 24 * time.Hour}, {"slow", 0.01, 0}, {"busy", 10, 0}} {
		for _, n := range []int64{1, 19, 100, 700, 1000, 3001, tier.Pick[int64](10_000, 100_000)} {
			for _, within := range []time.Duration{time.Millisecond, 59 * time.Second} {
				t.Run(fmt.Sprintf("%s/%d in %v", h.what, n, within), func(t *testing.T) {
					f := newFlow(t, h.rate, step, unbounded)
					if h.what != "fresh" {
						f.run(time.Hour, nothing)
					}
					f.rest(h.rest)
					had, sent := f.reserved(), f.sent
					f.burst(n, within)
					f.rate, f.batch = h.rate, 1
					f.run(20*time.Minute, nothing)
					// A busy tag's mean rate may double.
					most := 2*n + 3*step/2 + (f.sent - sent - n) + int64(h.rate*64*60)
					if got := f.reserved() - had; got > most {
						t.Errorf("%d numbers were reserved, want %d at most", got, most)
					}
				})
			}
		}
	}
}

// TestShortRunsReserveLittle: if a rate ends after some time, at most twelve
// times as many numbers were reserved as handed out, and one and a half steps:
// at worst three minutes after it began, when it has just lasted.
func TestShortRunsReserveLittle(t *testing.T) {
	t.Parallel()
	const step = 1000
	for _, rate := range []float64{1, 10, 100, 1000} {
		f := newFlow(t, rate, step, unbounded)
		f.run(20*time.Minute, func() {
			if got, most := f.reserved(), 12*f.sent+3*step/2; got > most {
				t.Fatalf("%v/s: %d numbers were reserved for %d IDs, want %d at most", rate, got, f.sent, most)
			}
		})
	}
}

// TestRepeatedBursts: bursts of 100 requests every minute for a day leave a
// buffer that is bounded by three quarters of an hour of them, and seldom load.
func TestRepeatedBursts(t *testing.T) {
	t.Parallel()
	const n, most = 100, 45 * 100
	f := newFlow(t, 0, 1000, unbounded)
	for end := f.now + 24*time.Hour; f.now < end; {
		f.burst(n, time.Millisecond)
		f.rest(time.Minute)
		if left := f.figures().Left; left > most {
			t.Fatalf("at %v the buffer has %d IDs, want %d at most", f.now, left, most)
		}
	}
	if writes := len(f.loads); writes > 24*4 {
		t.Errorf("%d store writes in a day, want %d at most: one in 15 minutes", writes, 24*4)
	}
}

// TestLateGrants: after the store hung, each sending of a load is answered. The
// first answers fill the buffer; the others are burnt, and end the load that is
// open then. That must not begin another one whose answer is late in turn, and
// so on without end.
func TestLateGrants(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1000, 10_000} {
		for calm := 100 * time.Millisecond; calm < 5*time.Minute; calm *= 2 {
			for _, hung := range []time.Duration{2500 * time.Millisecond, 10 * time.Second} {
				f := newFlow(t, rate, 1000, ceiling)
				f.batch, f.latency = int64(rate/1000), 5*time.Millisecond
				tick := func() { f.Tick() }
				f.run(calm, tick)
				f.stopped = true
				f.run(hung, tick)
				f.stopped = false
				loads := len(f.loads)
				f.run(20*time.Second, func() {
					tick()
					if n := len(f.loads) - loads; n > 30 {
						t.Fatalf("%v/s for %v, then %v without answers: %d loads after that, want a few", rate, calm, hung, n)
					}
				})
			}
		}
	}
}

// TestFewRequestsLoadOnce: a tag with a few requests is loaded once, even if
// they came fast or over a long time.
func TestFewRequestsLoadOnce(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Millisecond, time.Second, time.Hour} {
		h := order(1000)
		writes := 0
		for range 100 {
			h.request("order", 1)
			writes += h.grantAll()
			h.now += pause
			h.Tick()
		}
		if writes != 1 {
			t.Errorf("100 requests every %v: %d store writes, want 1", pause, writes)
		}
	}
}

// TestRestartLosesAStep: of a tag with few requests, each restart of its worker
// loses what is left of a step.
func TestRestartLosesAStep(t *testing.T) {
	const step, restarts = 1000, 10
	next := int64(1)
	for range restarts {
		h := order(step)
		h.next = next
		h.request("order", 1)
		h.grantAll()
		for range 104 {
			h.now += time.Second
			h.request("order", 1)
			h.grantAll()
		}
		next = h.next
	}
	if next != restarts*step+1 {
		t.Errorf("after %d restarts the next number is %d, want %d", restarts, next, restarts*step+1)
	}
}

// TestCeilingBoundsMemory: if the largest step is too small for a rate, the
// buffer has no more than two segments.
func TestCeilingBoundsMemory(t *testing.T) {
	t.Parallel()
	const most = 10_000
	f := newFlow(t, 1000, 1000, most)
	f.run(10*time.Minute, func() {
		if left := f.figures().Left; left > 2*most {
			t.Fatalf("at %v, %d IDs are in memory, want %d at most", f.now, left, 2*most)
		}
	})
	if loads := f.sent/most + 10; int64(len(f.loads)) > loads {
		t.Errorf("%d store writes, want %d at most", len(f.loads), loads)
	}
}

// TestConfiguredStepAboveTheCeiling counts as the ceiling.
func TestConfiguredStepAboveTheCeiling(t *testing.T) {
	const most = 10_000
	f := newFlow(t, 1, 10*most, most)
	f.run(time.Hour, func() {
		if len(f.loads) != 1 {
			t.Fatalf("another load after %d of %d IDs were used, want it at half", f.sent, most)
		}
	})
}
