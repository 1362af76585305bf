// Package memory measures what a test allocates.
package memory

import "runtime"

// Allocated is how many bytes were allocated in this process while f ran, by whomever.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
