package boottime

import "golang.org/x/sys/unix"

// Now returns the nanoseconds since the machine started, time in suspend included. If ok is false,
// the clock cannot be read.
func Now() (ns int64, ok bool) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return now.Nano(), err == nil
}
