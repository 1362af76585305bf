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
// host: allocations, bytes of heap, and numbers of messages and writes. Some of
// them measure how an installation's costs grow with the number of its processes
// and tags:
//
//	atrest_test.go    the traffic of an idle process
//	many_test.go      200 workers, half of which are restarted at once
//	firstuse_test.go  sequences that the first request creates
//	tap_test.go       the server's messages, by kind
//
// All start their servers, registers and processes as a site (site_test.go): on
// real servers, with the processes in the test's own. docs/benchmarks.md has the
// commands that print the tables.
package bench
