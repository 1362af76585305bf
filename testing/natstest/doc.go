// Package natstest runs real NATS servers inside a test: one with [Start], three
// that form a JetStream cluster with [StartCluster]. Each can be stopped and
// restarted on its port and its data, which is how tests take the store, the load
// stream or a quorum away and give them back.
//
// A stop is a clean one: the server writes out what it holds. What a power failure
// does to writes that were acknowledged but not synced cannot be seen here.
//
// Tests do not sleep and hope: they wait for a condition with [Eventually].
package natstest
