//go:build !linux

package snowflake

// bootTime returns false: there is no portable clock of this kind.
func bootTime() (ns int64, ok bool) { return 0, false }
