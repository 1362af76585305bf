// Package memory measures a test's allocations.
package memory

import "runtime"

// Allocated returns the bytes that all goroutines allocated while f ran.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
