package allocator_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
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

// use sends requests until that part of the current segment is used, counted
// from the latest load, at a tenth of it.
func (f *flow) use(part float64) {
	f.load(1)
	step := float64(f.loads[len(f.loads)-1].step)
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
		{"traffic leaves", 1000, 0, 10, 10 * time.Minute},
		{"after a night", 100, 8 * time.Hour, 100, 5 * time.Minute},
		{"after a weekend, half of it", 500, 60 * time.Hour, 250, 5 * time.Minute},
	} {
		t.Run(c.why, func(t *testing.T) {
			f := newFlow(t, c.before, 1, ceiling)
			f.load(settledAfter)
			f.use(0.2)
			f.figures()
			f.wait(int64(c.rest.Seconds() * f.rate))
			f.rate = c.after
			for until, read := f.now+c.held, f.now; f.now < until; {
				f.request()
				if f.now >= read { // as a monitor does
					read = f.now + 15*time.Second
					f.figures()
				}
			}
			f.outage("the store stopped")
		})
	}
}

// TestWorstRunway: with the right step, another segment is requested when the
// buffer lasts for less than 15 minutes. The check is at each fortieth of a
// segment.
func TestWorstRunway(t *testing.T) {
	t.Parallel()
	worst := time.Duration(math.MaxInt64)
	for _, rate := range rates {
		if ceiling/rate < 1200 {
			continue // the ceiling binds: 0.9 × ceiling ÷ rate
		}
		// Steps that last for all times from 15 to 30 minutes.
		for offset := range 16 {
			start := int64(rate * 900 * (1 + float64(offset)/16))
			if start < 1000 {
				continue // so few IDs that each counts
			}
			f := newFlow(t, rate, start, ceiling)
			f.load(settledAfter)
			for until := len(f.loads) + 5; len(f.loads) < until; f.request() {
				worst = min(worst, f.figures().Runway)
			}
		}
	}
	t.Logf("the worst moment left %v", worst)
	if least := 14*time.Minute + 20*time.Second; worst < least || worst > 16*time.Minute {
		t.Errorf("the worst moment left %v, want about 15m", worst)
	}
}
