package snowflake

import "golang.org/x/sys/unix"

// sinceBoot returns a clock that counts nanoseconds from now on, in suspend too; nil
// if the kernel has none.
func sinceBoot() func() int64 {
	var start unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &start) != nil {
		return nil
	}
	return func() int64 {
		var now unix.Timespec
		if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
			return 0 // counts as no time in suspend
		}
		return now.Nano() - start.Nano()
	}
}
