// Package natstest runs real NATS servers inside a test: a single server with
// [Start], a JetStream cluster of three with [StartCluster]. Each can be
// stopped and restarted on its port and its data. So tests take the store, the
// load stream or a quorum away and give them back.
//
// Stops are clean: the server writes its data to disk. The loss of acknowledged
// but unsynced writes in a power failure cannot be tested here.
//
// Tests do not sleep and hope: they wait for a condition with [Eventually].
package natstest
