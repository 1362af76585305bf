// Package process builds and runs real programs for tests: idworker,
// nats-server and variants of them. Processes end with the test process, even
// if that is killed.
//
// It does not use [testing.TB]: tests that inject faults from goroutines of
// their own cannot end a test there, so everything returns errors.
package process
