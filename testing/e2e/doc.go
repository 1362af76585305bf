// Package e2e tests the idworker binary as it is run: real processes that are started,
// killed with -9, stopped with TERM, paused and started again. Tests talk to them only by
// command line and over the wire. They run with make test-all.
//
// What a package can prove is tested there; here are scenarios that need processes, each on
// a site that is set up once, with a part (t.Run) for each promise.
//
//	cli_       the first minutes of a newcomer, commands that need a process, HTTP
//	client_    callers that restarts, kills and pauses of workers do not reach; Node.js
//	segment_   bad requests; on demand, overload and unknown tags
//	store_     MySQL and PostgreSQL, moving counters, leaving Leaf, the life of a data folder
//	cluster_   three NATS servers as the docs say, a leaf node
//	enrich_    enrichers that are killed at every step
//	status_    status agrees with /metrics on a bad day
//	security_  nats.conf: each user may do what it needs and no more; no secret is shown
//	harness_   what the tests are made of
//
// Processes are started by testing/process, connections cut at a given text by
// testing/cutter. NATS servers in the test's own process are from testing/natstest, databases
// from testing/dbtest, ports from testing/freeport.
//
// # Rules
//
// Whether an ID was handed out twice is never sampled: every ID of every reply is looked
// at. The binary has the race detector; a race that a process reports fails its test.
// Processes end with their test, and with the test process, however that ends. What they
// logged is shown when a test fails.
//
// Nothing is judged by the clock: what has to happen is waited for with natstest.Eventually,
// and callers ask again where a caller would. A request that must not be lost has
// natstest.Patience.
package e2e
