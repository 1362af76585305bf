// Package scale measures an installation's costs as the number of its processes
// grows: on a real server that syncs every write, unless a test uses another,
// with the processes in the test's own process, each with its two connections.
//
//	atrest_test.go    the traffic of an idle process
//	many_test.go      200 workers, half of which are restarted at once
//	firstuse_test.go  sequences that the first request creates
//	tap_test.go       the server's messages, by kind
//	harness_test.go   an installation of many processes
//
// Counts are asserted, times are not: those depend on the machine. The tables
// in docs/scaling.md are printed by
//
//	SOAK=1 go test -v -run AtRest ./testing/scale
//	SOAK=1 go test -v -run ManyWorkers -timeout 20m ./testing/scale
//	FIRST_USES=20000 go test -v -run TestFirstUses ./testing/scale
package scale
