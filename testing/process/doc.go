// Package process builds and runs real programs for tests: idworker,
// nats-server and variants of them. Processes end with the test process, even
// if that is killed.
//
// [Program.Start] is for a test's own goroutine. [Program.Launch] and
// [Program.Run] return errors: a goroutine that injects faults cannot end a
// test.
package process
