// Package boottime measures time that includes the time in suspend. Go's
// monotonic time stands still in suspend, and its wall time may be set.
package boottime

import "time"

// Elapsed returns a clock that counts nanoseconds from now on, in suspend too;
// nil if the kernel has no such clock.
func Elapsed() func() int64 {
	start, ok := read()
	if !ok {
		return nil
	}
	return func() int64 {
		now, ok := read()
		if !ok {
			return 0 // counts as no time in suspend
		}
		return now - start
	}
}

// Clock returns a clock like time.Now whose times differ by the time in suspend
// too, where the kernel has such a clock. It is never behind the monotonic
// clock.
func Clock() func() time.Time {
	start := time.Now()
	first, ok := read()
	if !ok {
		return time.Now
	}
	return func() time.Time {
		now, _ := read() // 0 if unreadable: then the monotonic clock counts
		return start.Add(max(time.Duration(now-first), time.Since(start)))
	}
}
