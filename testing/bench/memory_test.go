package bench

import "runtime"

// heap is the number of bytes that are in use on the heap.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // the second empties the pools
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
