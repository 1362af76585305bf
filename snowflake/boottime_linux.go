package snowflake

import "golang.org/x/sys/unix"

// bootTime returns the nanoseconds since the machine started, time in suspend
// included, or false if the clock cannot be read.
//
// It is CLOCK_BOOTTIME, because Go's monotonic time stands still in suspend. A
// reading takes a tenth of a microsecond. If a hypervisor stops the whole
// virtual machine silently, this clock stands still, too.
func bootTime() (ns int64, ok bool) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return now.Nano(), err == nil
}
