//go:build !linux

package boottime

// read returns false: there is no portable clock of this kind.
func read() (ns int64, ok bool) { return 0, false }
