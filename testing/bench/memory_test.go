package bench

import "runtime"

// heap is the number of bytes that are in use on the heap.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools keep goes with the second
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
