package snowflake

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// suspendable is a system clock on a machine that is put to sleep by hand.
func suspendable() (c *systemClock, mono, boot *int64) {
	mono, boot = new(int64), new(int64)
	c = &systemClock{
		base:  noon.UnixNano(),
		mono:  func() int64 { return *mono },
		boot:  func() int64 { return *boot },
		wall:  func() int64 { return noon.UnixNano() + *boot },
		timer: time.NewTimer(time.Hour),
	}
	return c, mono, boot
}

func TestSuspendCounts(t *testing.T) {
	c, mono, boot := suspendable()
	awake := func(d time.Duration) { *mono += int64(d); *boot += int64(d) }
	var want time.Duration
	for range 100 {
		awake(5 * time.Millisecond)
		*boot += int64(time.Hour) // asleep
		want += 5*time.Millisecond + time.Hour
		if got := time.Duration(c.now() - c.base); got != want {
			t.Fatalf("%v have passed, the clock says %v", want, got)
		}
		// Within the period a suspend may go unnoticed; after it, it may not.
		awake(100 * time.Microsecond)
		*boot += int64(time.Minute)
		c.now()
		awake(time.Millisecond)
		want += 1100*time.Microsecond + time.Minute
		if got := time.Duration(c.now() - c.base); got != want {
			t.Fatalf("%v have passed, the clock says %v", want, got)
		}
	}
}

// TestJump: a wall time that is set ahead by seconds is noticed before a time
// is returned, once; a drift and a suspend are no jumps, and neither is a step
// back.
func TestJump(t *testing.T) {
	c, mono, boot := suspendable()
	off, jumps := time.Duration(0), 0
	c.wall = func() int64 { return noon.Add(off).UnixNano() + *boot }
	c.jumped = func() { jumps++ }
	for _, step := range []struct {
		by    time.Duration
		jumps int
	}{{0, 0}, {time.Second, 0}, {time.Second, 0}, {3 * time.Second, 1}, {0, 1}, {-time.Hour, 1}, {time.Hour, 2}, {time.Millisecond, 2}} {
		off += step.by
		*mono += int64(time.Millisecond)
		*boot += int64(time.Millisecond + time.Hour) // asleep
		if c.now(); jumps != step.jumps {
			t.Fatalf("after a step of %v: %d jumps, want %d", step.by, jumps, step.jumps)
		}
	}
}

// TestPausesAreNoJumps: a pause of the process, before or after a clock is
// read, is no jump, and neither is its end.
func TestPausesAreNoJumps(t *testing.T) {
	c, mono, boot := suspendable()
	for pauseAt := range 20 {
		readings := 0
		pause := func() {
			if readings++; readings == pauseAt {
				*mono += int64(time.Minute)
				*boot += int64(time.Minute)
			}
		}
		read := func(from func() int64) int64 { pause(); now := from(); pause(); return now }
		c.mono = func() int64 { return read(func() int64 { return *mono }) }
		c.wall = func() int64 { return read(func() int64 { return noon.UnixNano() + *boot }) }
		c.jumped = func() { t.Errorf("paused at reading %d: a jump", pauseAt) }
		for range 3 {
			*mono += int64(time.Millisecond)
			*boot += int64(time.Millisecond)
			c.now()
		}
	}
}

// A pause between the two readings must not look like a suspend: the clock may
// fall behind for it, but never run ahead of the clock that counts everything.
func TestPausesAreNotTakenForSuspend(t *testing.T) {
	c, mono, boot := suspendable()
	pause := func() {
		d := rand.Int64N(int64(50 * time.Millisecond))
		*mono += d
		*boot += d
	}
	c.mono = func() int64 { pause(); now := *mono; pause(); return now }
	c.boot = func() int64 { pause(); now := *boot; pause(); return now }
	for i := range 1000 {
		if i%10 == 0 {
			*boot += int64(time.Second)
		}
		if got := c.now() - c.base; got > *boot {
			t.Fatalf("%v have passed, the clock says %v", time.Duration(*boot), time.Duration(got))
		}
	}
}

func TestABusyClockStandsAndGoesOn(t *testing.T) {
	c, mono, _ := suspendable()
	first := c.now()
	for range busyReads {
		c.now()
	}
	*mono += int64(time.Microsecond)
	if c.now() != first {
		t.Error("read very often, and still it runs")
	}
	c.standing.Store(0) // as the timer does
	*mono += int64(time.Hour)
	if got := time.Duration(c.now() - first); got != time.Hour+time.Microsecond {
		t.Errorf("it goes on at %v", got)
	}
	*mono += int64(time.Second)
	if got := time.Duration(c.now() - first); got != time.Hour+time.Second+time.Microsecond {
		t.Errorf("read seldom, it stands at %v", got)
	}
}

func TestSystemClockIsTheTime(t *testing.T) {
	c := SystemClock()
	for range 2 {
		const off = 100 * time.Millisecond
		earliest := time.Now().Add(-off)
		now := time.Unix(0, c())
		if latest := time.Now().Add(off); now.Before(earliest) || now.After(latest) {
			t.Errorf("%v, want %v to %v", now, earliest, latest)
		}
		// Again after it was kept busy, and that was over.
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for range 4 * busyReads {
					c()
				}
			})
		}
		wg.Wait()
		before, start := c(), time.Now()
		for c() == before {
			if time.Since(start) > 4*time.Minute {
				t.Fatal("the clock stands for good")
			}
		}
	}
}
