package allocator_test

import (
	"math"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// crowd is a tag at several workers, which share a store and a clock. Requests
// go to each in turn.
type crowd struct {
	t       *testing.T
	workers []*harness
	next    int64
	now     time.Duration
	turn    int
	scraped bool // every minute
}

func newCrowd(t *testing.T, workers int) *crowd {
	c := &crowd{t: t, next: 1}
	for range workers {
		c.add()
	}
	return c
}

// add starts a worker.
func (c *crowd) add() {
	h := newHarness(allocator.Config{})
	h.step = 1000
	c.workers = append(c.workers, h)
}

// ask sends requests for that many IDs a second, for a while.
func (c *crowd) ask(perSecond float64, d time.Duration) {
	const every = 10 * time.Second
	owed := 0.0
	for end := c.now + d; c.now < end; c.now += every {
		if c.scraped && c.now%time.Minute == 0 {
			c.workers[0].now = c.now
			c.workers[0].Figures()
		}
		for owed += perSecond * every.Seconds(); owed >= 1; {
			h := c.workers[c.turn%len(c.workers)]
			c.turn++
			n := max(1, int64(perSecond*every.Seconds()/5))
			owed -= float64(n)
			h.now = c.now
			h.request("order", n)
			c.grant(h)
		}
	}
}

// grant plays the store.
func (c *crowd) grant(h *harness) {
	for len(h.asked) > 0 {
		l := h.asked[0]
		h.asked = h.asked[1:]
		s := store.Segment{First: c.next, End: c.next + h.size(l)}
		c.next = s.End
		h.Grant(l.Tag, l.Seq, s)
	}
}

// wants checks a worker's rate, within a part of it; 0 means no rate.
func (c *crowd) wants(when string, h *harness, rate, part float64) {
	c.t.Helper()
	h.now = c.now
	f := h.Figures()[0]
	if math.Abs(f.Use-rate) > part*rate || rate == 0 && f.Use != 0 {
		c.t.Errorf("%s: %.2f numbers a second over %v, want %.2f", when, f.Use, f.Over, rate)
	}
}

// TestUseOfAllWorkers: each worker measures how fast all workers use up the
// numbers.
func TestUseOfAllWorkers(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 2, 10} {
		for _, rate := range []float64{20, 5000} {
			c := newCrowd(t, workers)
			c.ask(rate, 12*time.Hour)
			for _, h := range c.workers {
				c.wants("after half a day", h, rate, 0.4)
			}
		}
	}
}

// TestUseTakesEvidence: there is no rate for a tag with few requests, or with
// too few grants.
func TestUseTakesEvidence(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 1)
	c.ask(1, 10*time.Minute)
	c.wants("in the first segment", c.workers[0], 0, 0)
	c.ask(1, 24*time.Hour)
	c.wants("after a day", c.workers[0], 1, 0.1)
	c.add() // like a restart
	c.workers = c.workers[1:]
	c.ask(1, time.Minute)
	c.wants("a minute after a restart", c.workers[0], 0, 0)
}

// TestUseFollowsTheRate: a burst that has ended stops counting sooner than in
// the average, a burst that has begun does not count immediately, and another
// rate shows within some days.
func TestUseFollowsTheRate(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 1)
	c.scraped = true
	h := c.workers[0]
	c.ask(100, time.Hour)
	c.wants("a first hour", h, 100, 0.1)
	c.ask(1, 3*time.Hour)
	c.wants("after it", h, 1, 0.5)
	c.ask(1, 7*24*time.Hour)
	c.wants("a week later", h, 1, 0.1)
	c.ask(100, time.Hour)
	if f := h.Figures()[0]; f.Use > 10 {
		t.Errorf("an hour at 100 a second after a week at 1: %.2f over %v", f.Use, f.Over)
	}
	c.ask(100, 6*24*time.Hour)
	c.wants("six days later", h, 100, 0.1)
	if f := h.Figures()[0]; f.Over > 6*24*time.Hour {
		t.Errorf("measured over %v, which is not the present", f.Over)
	}
}

// TestUseSurvivesARaise: the rate of a tag that was raised, as by each restore
// procedure, stays as before.
func TestUseSurvivesARaise(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 2)
	c.ask(1000, 6*time.Hour)
	c.next += 1e9
	c.ask(1000, 30*time.Minute)
	for _, h := range c.workers {
		c.wants("after a raise", h, 1000, 0.5)
		if f := h.Figures()[0]; f.High < 1e9 {
			t.Errorf("granted up to %d, want what is beyond the raise", f.High)
		}
	}
}

// TestUseSurvivesDrills: raises of all tags in quick succession do not change
// the rate, however many of a worker's latest grants follow one.
func TestUseSurvivesDrills(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 2)
	c.ask(1000, 6*time.Hour)
	for raise := range int64(5) {
		c.next = 1_800_000_000_000_000 + raise*10_000_000_000
		before := c.workers[0].Figures()[0].High
		for c.workers[0].Figures()[0].High == before {
			c.ask(1000, time.Minute)
		}
	}
	for _, h := range c.workers {
		c.wants("after five raises", h, 1000, 0.5)
	}
}
