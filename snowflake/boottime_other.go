//go:build !linux

package snowflake

// sinceBoot: there is no portable clock that counts in suspend.
func sinceBoot() func() int64 { return nil }
