// Package process builds and runs real programs for tests: idworker, nats-server and variants
// of them. Processes end with the test process, however that ends.
//
// It knows nothing of [testing.TB]: those who run faults from goroutines of their own cannot
// end a test there, so everything returns errors.
package process
