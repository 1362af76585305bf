package boottime

import "golang.org/x/sys/unix"

// read returns the nanoseconds since the machine started, time in suspend
// included, or false if the clock cannot be read.
//
// It reads CLOCK_BOOTTIME, which takes a tenth of a microsecond. If a
// hypervisor stops the whole virtual machine silently, this clock stands still,
// too.
func read() (ns int64, ok bool) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return now.Nano(), err == nil
}
