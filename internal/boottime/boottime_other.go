//go:build !linux

package boottime

// Now returns false: there is no such clock.
func Now() (ns int64, ok bool) { return 0, false }
