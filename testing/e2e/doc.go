// Package e2e tests the idworker binary as it is run: real processes that are started,
// killed with -9, stopped with TERM, paused and started again. Tests talk to them only by
// command line and over the wire.
//
// # Where is what
//
// The prefix of a file is its area. The promises are those of the README.
//
//	segment_    tags served from JetStream    1 no ID twice, 2 ascending, 3 the end of the
//	                                          numbers, 4 requests never wait for a database,
//	                                          6 joining and leaving loses nothing
//	snowflake_  IDs that sort by time         1, through pauses, kills and leases that end
//	store_      MySQL, MariaDB, PostgreSQL,   1 beside Leaf, on damaged data and on data that
//	            and the embedded data folder  went back, 4, 5 the store may be away, 6 without
//	                                          a store
//	cluster_    three NATS servers, a leaf    1, 5 and 6 while servers fail
//	enrich_     idworker enrich, and verify   each event arrives once, in order, with one ID
//	client_     the Go and the Node.js client an outage is a delay, not an error
//	cli_        commands, doctor, bench,      clear errors, exit codes, JSON, documented metrics,
//	            HTTP, API                     completion in shells, the manual page
//	upgrade_    versions side by side         1, 6 and 7 between versions of idworker, and with older
//	                                          versions of nats-server and nats.go
//	status_     the status page, idworker     what they say agrees with /metrics; what cannot be read
//	            status                        is named
//	strict_     strict tags                   2, for every two requests, through owners that are killed,
//	                                          paused, cut off and stopped
//	security_   logins, nats.conf, secrets    each role may do what it needs and no more;
//	                                          no secret is shown
//	harness_    what the tests are made of    see below
//
// # The harness
//
//	harness_main        builds the binaries, once
//	harness_process     starts and ends idworker, runs commands, reads their output
//	harness_natsserver  a real nats-server with the repository's nats.conf
//	harness_database    Leaf's table in real databases, and Leaf's own servers
//	harness_goneback    an installation whose database goes back, again and again, under load
//	harness_client      one request, asked once
//	harness_callers     a load of callers that each wait for the answer
//	harness_steady      a load at a fixed rate, whatever becomes of the requests
//	harness_ledger      one bit for each ID: whether it was handed out before
//	harness_order       which process gave an ID, and whether its IDs went up
//	harness_lives       who held which snowflake worker ID, and up to what time
//	harness_enrichment  source, target and enrichers; what arrived, and in which order
//	harness_verify      enrich verify, beside a plain checker
//	harness_stats       what workers say of themselves
//	harness_mixed       a load of every sort of ID, for processes of several versions
//	harness_versions    the previous version, built from git; older nats-servers
//	harness_strict      callers whose requests and answers make a history
//	harness_http        callers that speak HTTP, a load balancer, and Leaf's server as they know it
//	harness_guide       runs the commands of a page of the docs
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
// Tests that mostly wait run in parallel. Those that need the whole machine, because they
// overload a worker, bound how late an answer may be, or keep all processors busy, do not,
// and so run alone. `make test` proves a promise with few rounds; numbers from soak.Pick
// are larger in `make soak`.
package e2e
