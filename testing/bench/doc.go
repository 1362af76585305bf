// Package bench measures idworker's costs, each figure beside the plainest
// baseline that could do the same job: an atomic add for the allocator, an echo
// service for the worker. `make bench` runs it and prints a table at the end.
//
// Hosts differ and are shared, so an absolute figure means little. The subject
// and its baseline take turns in short rounds within a single run, and the
// result is the median of the rounds' ratios: a disturbance affects both sides
// of a round or is outvoted.
//
// Nothing fails for being slow. Tests assert figures that do not depend on the
// host: allocations and bytes of heap.
package bench
