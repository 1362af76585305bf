// Package e2e tests the idworker binary in use: real processes that are started,
// killed, stopped with SIGTERM, paused and restarted. Tests reach them only by
// command line and over the wire. They run with make test-all.
//
// Promises that a package can prove are tested there. The scenarios here need
// processes, each on a site that is set up once, with a part (t.Run) for each
// promise.
//
//	cli_       the first minutes of a newcomer, commands that need a process, HTTP
//	client_    callers unaffected by restarts, kills and pauses of workers; Node.js
//	segment_   bad requests, strict order; on demand, overload and unknown tags
//	store_     MySQL and PostgreSQL, and their replicas; moving counters, leaving Leaf; a damaged data
//	           folder; backups restored under load, again and again, into a new installation, and by a
//	           command that is killed and run again
//	evidence_  a register that went back, and who remembers; claims and liars that stop nothing for ever
//	snowflake_ JetStream that is away for long; a lost clock bucket
//	cluster_   three NATS servers as in the docs
//	enrich_    enrichers that are killed at every step
//	status_    status agrees with /metrics on a bad day
//	security_  nats.conf: each user has the rights it needs; no secret shows
//	harness_   the tests' equipment
//
// testing/process starts processes, testing/proxy disturbs connections. NATS servers in the test's own process are from testing/natstest,
// databases from testing/dbtest, ports from testing/freeport.
//
// # Rules
//
// The check for duplicate IDs never samples: it covers every ID of every reply.
// The binary has the race detector; a race in a process fails its test.
// Processes end with their test, and with the test process, even if that is
// killed. Their logs are shown when a test fails.
//
// The clock decides nothing: natstest.Eventually waits for states, and callers
// retry where a real caller would. A request that must not be lost has
// natstest.Patience.
package e2e
