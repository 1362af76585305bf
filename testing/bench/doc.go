// Package bench measures what idworker costs, each figure beside the plainest thing
// that could do the same job: an atomic add for the allocator, an echo service for
// the worker. `make bench` runs it and prints a table at the end.
//
// Hosts differ and are shared, so a figure alone says little. The subject and its
// baseline take turns in short rounds within one run, and what counts is the median
// of the rounds' ratios: what disturbs one round disturbs both sides or is outvoted.
//
// Nothing fails because it was slow. What does not depend on the host, allocations
// and bytes of heap, is asserted by tests.
package bench
