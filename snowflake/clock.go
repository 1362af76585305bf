package snowflake

import (
	"sync/atomic"
	"time"
)

// Clock says what time it is: Unix time in nanoseconds. A [Generator] asks it in
// every call, from many goroutines at once.
type Clock func() int64

// SystemClock is the wall time of this call plus the time that has passed since,
// time in suspend included. So it runs at the pace of the system's clock, but a
// step of that clock, by NTP or by hand, does not move it. (On systems other than
// Linux, whether suspend counts is up to Go's monotonic time.)
//
// Asked more than 5 times in a microsecond, it stands still for a millisecond at
// a time, because reading the system's clock would be most of what an ID costs.
// So busy, it is behind by 1 ms and what Go's timers are late, about 10 ms when
// every core is taken, and by the length of a pause for the first calls after a
// process that was stopped while busy goes on. With a layout of up to 4,096 IDs
// per millisecond, such as all the named ones, IDs made at that rate are borrowed
// and ahead of the clock anyway.
func SystemClock() Clock {
	start := time.Now()
	c := &systemClock{
		base: start.UnixNano(),
		mono: func() int64 { return int64(time.Since(start)) },
		boot: sinceBoot(),
	}
	c.timer = time.AfterFunc(standFor, func() { c.standing.Store(0) })
	return c.now
}

type systemClock struct {
	base int64        // wall time at the start
	mono func() int64 // nanoseconds since the start, without suspend
	boot func() int64 // the same with suspend; nil if there is no such clock

	// standing is the time at which the clock stands, 0 if it runs. It stands
	// after busyReads readings in one period, until the timer ends that.
	standing atomic.Int64
	reads    atomic.Int64
	timer    *time.Timer

	suspended atomic.Int64 // time in suspend known so far
	periodEnd atomic.Int64 // on mono
}

const (
	period    = int64(time.Millisecond)
	busyReads = 5000
	standFor  = time.Millisecond
)

func (c *systemClock) now() int64 {
	if standing := c.standing.Load(); standing != 0 {
		return standing
	}
	mono := c.mono()
	if mono >= c.periodEnd.Load() {
		c.periodEnd.Store(mono + period)
		c.reads.Store(0)
		c.findSuspend()
	}
	now := c.base + mono + c.suspended.Load()
	if c.reads.Add(1) == busyReads {
		c.standing.Store(now)
		c.timer.Reset(standFor)
	}
	return now
}

// findSuspend raises the known time in suspend.
//
// The kernel has one clock that does it all, CLOCK_BOOTTIME, but to read it takes
// a system call, ten times as long as Go's monotonic time. The two differ only by
// the time in suspend, so it is enough to compare them once per period. After a
// resume the clock is behind for up to that long.
//
// mono is read after boot, so the difference is too small if anything (a pause in
// between), never too large; the largest one seen is the best.
func (c *systemClock) findSuspend() {
	if c.boot == nil {
		return
	}
	boot := c.boot()
	raise(&c.suspended, boot-c.mono())
}

// raise sets v to at least n.
func raise(v *atomic.Int64, n int64) {
	for {
		old := v.Load()
		if n <= old || v.CompareAndSwap(old, n) {
			return
		}
	}
}
