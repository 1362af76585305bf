package snowflake

// sinceBoot returns a clock that counts nanoseconds from now on, in suspend
// too; nil if the kernel has no such clock.
func sinceBoot() func() int64 {
	start, ok := bootTime()
	if !ok {
		return nil
	}
	return func() int64 {
		now, ok := bootTime()
		if !ok {
			return 0 // counts as no time in suspend
		}
		return now - start
	}
}
