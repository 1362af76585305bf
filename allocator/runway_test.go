package allocator_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/testing/tier"
)

// outage stops the store, compares the reported runway with the time that
// requests are answered from then on, and returns that. The first unanswered
// request is parked, and gets ErrNoSegment at its deadline.
func (f *flow) outage(when string) time.Duration {
	f.t.Helper()
	f.stopped = true
	start, reported := f.now, f.figures().Runway
	for half := false; ; {
		o := f.request()
		if o.err != nil {
			f.t.Fatalf("%s: %v at once, want it to be parked", when, o.err)
		}
		if o.answered == 0 {
			lasted := f.now - start
			f.wantRunway(when, reported, lasted)
			f.now += allocator.DefaultWait
			f.Tick()
			if !errors.Is(o.err, allocator.ErrNoSegment) {
				f.t.Fatalf("%s: %v at the deadline, want ErrNoSegment", when, o.err)
			}
			return lasted
		}
		// It stays right.
		if past := f.now - start; !half && past >= reported/2 {
			half = true
			f.wantRunway(when+", half-way through the outage", f.figures().Runway, reported-past)
		}
	}
}

// wantRunway allows for 10 %, and for the wait for the request that finds
// nothing.
func (f *flow) wantRunway(when string, reported, lasted time.Duration) {
	f.t.Helper()
	request := float64(max(1, f.figures().Step/100)) / f.rate
	if math.Abs(reported.Seconds()-lasted.Seconds()) > lasted.Seconds()/10+request {
		f.t.Errorf("%s: the reported runway is %v, the real one %v", when, reported, lasted)
	}
}

// use sends requests for that part of a load's IDs, from the latest load on.
func (f *flow) use(part float64) {
	f.load(1)
	step := float64(f.loads[len(f.loads)-1].Step)
	for until := f.elapsed + part*step/f.rate; f.elapsed < until; {
		f.request()
	}
}

// TestRunwayIsTrue: at any rate, and at any point of a segment, requests are
// answered for the reported runway if the store stops now.
func TestRunwayIsTrue(t *testing.T) {
	t.Parallel()
	for _, rate := range rates {
		for _, part := range []float64{0, 0.3, 0.6, 0.85} {
			t.Run(fmt.Sprintf("rate=%v/past=%v", rate, part), func(t *testing.T) {
				f := newFlow(t, rate, 1, ceiling)
				f.load(settledAfter)
				f.use(part)
				f.outage("the store stopped")
			})
		}
	}
}

// TestRunwayFollowsTheRate: after another rate was held for a while, the
// reported runway is as true as before, although the next load may be days
// away.
func TestRunwayFollowsTheRate(t *testing.T) {
	for _, c := range []struct {
		why    string
		before float64
		rest   time.Duration // with no request, in between
		after  float64
		held   time.Duration // until the runway is read
	}{
		{"surge", 10, 0, 1000, 5 * time.Minute},
		{"traffic leaves", 1000, 0, 10, time.Hour},
		{"after a night", 100, 8 * time.Hour, 100, 5 * time.Minute},
		{"after a weekend, half of it", 500, 60 * time.Hour, 250, 5 * time.Minute},
	} {
		t.Run(c.why, func(t *testing.T) {
			f := newFlow(t, c.before, 1, ceiling)
			f.load(settledAfter)
			f.use(0.2)
			f.figures()
			f.rest(c.rest)
			f.rate = c.after
			f.scraped = true
			f.run(c.held, nothing)
			f.outage("the store stopped")
		})
	}
}

// TestRateOfTheLastMinutes: a new rate shows in full after two minutes and a
// half, the rate of a slow tag is over ten IDs or more, and pauses between
// batches do not look like the end of traffic.
func TestRateOfTheLastMinutes(t *testing.T) {
	t.Parallel()
	f := newFlow(t, 10, 1000, unbounded)
	f.scraped, f.batch = true, 1
	f.run(10*time.Minute+30*time.Second, nothing)
	f.rate = 100
	f.run(150*time.Second, nothing)
	f.wantRate(0.02)
	f = newFlow(t, 0.05, 1000, unbounded)
	f.scraped, f.batch = true, 1
	f.uneven = func() float64 { return 0.5 + float64(f.sent%2) }
	f.run(10*time.Minute, nothing)
	f.run(time.Hour, func() { f.wantRate(0.1) })
	f = newFlow(t, 400, 1000, unbounded)
	f.batch = 2000 // each after 5 s, and another 15 s
	f.run(10*time.Minute, func() { f.rest(15 * time.Second) })
	f.run(10*time.Minute, func() {
		f.rest(15 * time.Second)
		if got := f.figures().Rate; got < 50 || got > 150 {
			f.t.Fatalf("the reported rate is %v between batches, want about 100", got)
		}
	})
}

// wantRate fails the test unless the reported rate is the real one, within that
// part of it.
func (f *flow) wantRate(within float64) {
	f.t.Helper()
	if got := f.figures().Rate; math.Abs(got-f.rate) > within*f.rate {
		f.t.Fatalf("the reported rate is %v, want %v", got, f.rate)
	}
}

// TestRunwayAfterABurst: a tag that is not used any more after a burst looks so
// within three minutes. Otherwise the alert of short buffers would fire after each
// nightly import.
func TestRunwayAfterABurst(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{100, 3000, 20_000, 100_000} {
		for _, within := range []time.Duration{time.Second, time.Minute, 3 * time.Minute} {
			f := newFlow(t, 1, 1000, unbounded)
			f.scraped = true
			f.burst(n, within)
			for ended := f.now; f.now < ended+time.Hour; f.rest(15 * time.Second) {
				if r := f.figures().Runway; f.now > ended+3*time.Minute && r < time.Hour {
					t.Errorf("%v after %d IDs in %v, the reported runway is %v, want hours", f.now-ended, n, within, r)
					break
				}
			}
		}
	}
}

// When a rate has lasted at the latest, and for how long the buffer lasts from
// then on. The README promises 13 minutes after five.
const (
	lastedAfter    = 4*time.Minute + 30*time.Second
	promisedRunway = 13 * time.Minute
	mostWrites     = 40 // of the store, until then
)

// setIn has a rate set in, and checks the promises for the time after it.
func (f *flow) setIn(what string, rate float64) {
	f.t.Helper()
	loads := len(f.loads)
	f.rate, f.batch = rate, int64(math.Ceil(rate/100))
	began, judged := f.now, f.uneven != nil
	f.run(lastedAfter, func() {
		if past := f.now - began; !judged && f.runway() < past*45/100 {
			judged = true
			f.t.Errorf("%s: after %v, the buffer lasts %v, want about half of that", what, past, f.runway())
		}
	})
	if n := len(f.loads) - loads; n > mostWrites {
		f.t.Errorf("%s: %d store writes until the rate has lasted, want %d at most", what, n, mostWrites)
	}
	f.batch = int64(math.Ceil(rate / 2))
	least, at := f.runway(), f.now
	f.run(20*time.Minute, func() {
		if r := f.runway(); r < least {
			least, at = r, f.now
		}
	})
	if least < promisedRunway {
		f.t.Errorf("%s: at %v, the buffer lasts %v, want %v", what, at, least, promisedRunway)
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
	return append(rates, 10, 100, 440, 500, 1000, 10_000, 99_999, 100_000)
}

// TestRunwayOfAFreshTag: once a rate has lasted on a fresh tag, whatever the
// rate, the buffer lasts, and continues to last, with few store writes.
func TestRunwayOfAFreshTag(t *testing.T) {
	t.Parallel()
	for _, rate := range allRates() {
		for _, scraped := range []bool{false, true} {
			f := newFlow(t, rate, 1000, unbounded)
			f.scraped = scraped
			f.setIn(fmt.Sprintf("%.4g/s, scraped: %t", rate, scraped), rate)
		}
	}
}

// TestRunwayOfUnevenTraffic: the same if the requests come at random, as those
// of many independent callers do, or if each other minute has nearly twice
// as many.
func TestRunwayOfUnevenTraffic(t *testing.T) {
	t.Parallel()
	for _, rate := range allRates() {
		for seed := range tier.Pick[uint64](2, 3) {
			f := newFlow(t, rate, 1000, unbounded)
			f.uneven, f.scraped = rand.New(rand.NewPCG(seed, 0)).ExpFloat64, seed%2 == 1
			f.setIn(fmt.Sprintf("random, seed %d, %.4g/s", seed, rate), rate)
		}
		f := newFlow(t, rate, 1000, unbounded)
		f.uneven = func() float64 { return 1 / (0.7 + 0.6*float64(f.now/time.Minute%2)) }
		f.setIn(fmt.Sprintf("in waves, %.4g/s", rate), rate)
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
				f := newFlow(t, before, 1000, unbounded)
				settled := 2*time.Hour + time.Duration(part)*16*time.Minute/parts
				f.run(settled, nothing)
				f.setIn(fmt.Sprintf("%v/s after %v/s for %v", before*factor, before, settled), before*factor)
			}
		}
	}
}

// TestSurgesWaitForNoLoad: if the rate of a tag surges, its buffer lasts until
// the store has answered, and grows as fast as it is used. Its segment may be
// far too large for the rate before the surge, because traffic had left.
func TestSurgesWaitForNoLoad(t *testing.T) {
	t.Parallel()
	parts := tier.Pick[time.Duration](2, 40)
	for _, before := range []float64{1, 17, 100} {
		for _, left := range []float64{1, 100} {
			for _, factor := range []float64{10, 100, 1000} {
				for part := range parts {
					f := newFlow(t, before*left, 1000, unbounded)
					f.latency = 250 * time.Millisecond
					f.run(2*time.Hour, nothing)
					f.rate, f.batch = before, int64(math.Ceil(before))
					for f.runway() > 20*time.Minute {
						f.mustServe()
					}
					f.run(part*16*time.Minute/parts, nothing)
					f.waited = 0
					f.rate, f.batch = before*factor, int64(max(1, before*factor/1000))
					f.run(time.Minute, nothing)
					if f.waited > 0 {
						t.Errorf("%v/s, then %v/s, then %v/s: %d requests waited for a load", before*left, before, before*factor, f.waited)
					}
				}
			}
		}
	}
}

// TestRunwayWhenTrafficLeaves: if the rate of a tag falls, its large segment is
// used up, and the next one is there in time.
func TestRunwayWhenTrafficLeaves(t *testing.T) {
	t.Parallel()
	for _, before := range []float64{30, tier.Pick(100., 1000)} {
		for _, factor := range []float64{10, 40, 1000} {
			f := newFlow(t, before, 1000, unbounded)
			f.run(time.Hour, nothing)
			f.rate, f.batch = before/factor, 1
			f.run(time.Duration(factor)*40*time.Minute, func() {
				if r := f.runway(); r < promisedRunway {
					t.Fatalf("%v/s after %v/s: the buffer lasts %v, want %v", before/factor, before, r, promisedRunway)
				}
			})
		}
	}
}
