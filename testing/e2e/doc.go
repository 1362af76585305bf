// Package e2e tests the idworker binary as it is run: real processes that are
// started, killed with -9, stopped with TERM, paused and started again, talked to by
// nothing but their command line and the wire.
//
// The binary is built once, with the race detector; a race that a process reports
// fails the test it belonged to. Processes end with their test, and with the test
// process too, however that ends. What they logged is shown when a test fails.
//
// Whether an ID was handed out twice is never sampled: every ID of every reply is
// marked in a bitmap. See ledger_test.go and order_test.go.
package e2e
