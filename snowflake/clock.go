package snowflake

import (
	"sync/atomic"
	"time"

	"github.com/idworker/idworker/internal/boottime"
)

// Clock returns the time: Unix time in nanoseconds. A [Generator] reads it in
// every call, from many goroutines at once.
type Clock func() int64

// SystemClock returns a clock that gives the wall time of this call plus the
// time passed since, time in suspend included. So it runs at the pace of the
// system's clock, but a step of that clock, by NTP or by hand, does not move
// it. (On systems other than Linux, Go's monotonic time decides whether suspend
// counts.)
//
// After more than 5 readings in a microsecond, it stands still for a
// millisecond at a time: reading the system's clock would be most of the cost
// of an ID. At that rate it is behind by 1 ms plus the delay of Go's timers,
// which is about 10 ms when every core is busy. After a pause at that rate, the
// first calls are behind by the length of the pause. With a layout of up to
// 4,096 IDs per millisecond, such as all named layouts, IDs made at that rate
// are borrowed and ahead of the clock anyway.
func SystemClock() Clock { return WatchedClock(func() {}) }

// WatchedClock is a [SystemClock] that compares itself with the system's wall
// time at most once in a millisecond. If that has gone ahead by more than two
// seconds since the last comparison, it calls jumped before it returns a time:
// the wall time was set, or the machine was resumed from a snapshot in which
// monotonic time stood still.
func WatchedClock(jumped func()) Clock {
	start := time.Now()
	c := &systemClock{
		base:   start.UnixNano(),
		mono:   func() int64 { return int64(time.Since(start)) },
		boot:   boottime.Elapsed(),
		wall:   func() int64 { return time.Now().UnixNano() },
		jumped: jumped,
	}
	c.timer = time.AfterFunc(standFor, func() { c.standing.Store(0) })
	return c.now
}

type systemClock struct {
	base int64        // wall time at the start
	mono func() int64 // nanoseconds since the start, without suspend
	boot func() int64 // the same with suspend; nil if there is no such clock
	wall func() int64 // the system's, which may be set

	jumped func()
	ahead  atomic.Int64 // the wall time's lead at the last comparison

	// standing is the time at which the clock stands, 0 if it runs. It stands
	// after busyReads readings in a period, until the timer ends that.
	standing atomic.Int64
	reads    atomic.Int64
	timer    *time.Timer

	suspended atomic.Int64 // the known time in suspend
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
		c.findSuspend()
		c.findJump()
		c.reads.Store(0)
		c.periodEnd.Store(mono + period) // only now: until then all look
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
// CLOCK_BOOTTIME counts both times, but reading it takes a system call, which
// is ten times slower than Go's monotonic time. The two differ only by the time
// in suspend, so it is enough to compare them once per period. After a resume,
// the clock is behind for up to a period.
//
// mono is read after boot, so the difference can be too small (after a pause in
// between) but never too large. Hence the largest difference seen is the best.
func (c *systemClock) findSuspend() {
	if c.boot == nil {
		return
	}
	boot := c.boot()
	raise(&c.suspended, boot-c.mono())
}

// A step of the wall time by more than this is a jump. Clocks that are kept
// right by NTP are set in steps much smaller.
const jump = 2 * time.Second

// findJump compares the two clocks. If the process was paused between the
// readings, they prove nothing, and would spoil the next comparison. So it
// reads them again.
func (c *systemClock) findJump() {
	for {
		before := c.mono()
		wall := c.wall()
		after := c.mono()
		if after-before > int64(jump)/8 {
			continue
		}
		ahead := wall - c.base - after - c.suspended.Load()
		if ahead-c.ahead.Load() > int64(jump) {
			c.jumped()
		}
		c.ahead.Store(ahead)
		return
	}
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
