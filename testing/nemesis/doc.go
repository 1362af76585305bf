// Package nemesis runs a whole installation of real processes, injects faults
// from a seed, and checks every ID and every enriched event, continuously and
// at the end. `make nemesis` runs it:
//
//	make nemesis                                       two minutes, a random seed, JetStream
//	make nemesis DURATION=20m SEED=7 STORE=postgres    or mysql
//	make nemesis FAULTS='folder old|loaders forget'    only these kinds, by a regular expression
//	make nemesis SYNC=2m                               servers that do not sync each write
//	make nemesis PRODUCT=FOLDER                        the idworker of another version's source
//	make nemesis DURATION=20m OUTAGE=1h                majorities of the servers away, with that outage declared
//
// [Faults] makes the schedule from the seed, the store and FAULTS alone. Faults
// come every 3 s on average, last up to 30 s, and come in storms of 36 s. After
// each storm everything is mended. The next storm waits until each kind of caller
// got an answer again, and an event published after the faults has arrived. A
// fault for a stream's leader names the stream; the run's log names the server.
//
// In some faults JetStream may lose writes: files are damaged, lost or put back,
// servers are removed, or their power is cut (loss.go). All loaders may be killed
// meanwhile, so that they forget what they have seen. Workers remember it, unless
// they are killed as well, which leaves loader1's witness alone. If a loader has
// stopped, or nothing is granted for a minute, tags are raised, as an operator
// does. The report's last table has how often each kind did harm. With SYNC events
// are not checked, since a power cut loses those as well.
//
// With OUTAGE the schedule is [Outages]: half of the time two of the three servers
// are away, while workers are paused beyond their fences, suspended, cut off or
// killed, and their clocks are set.
//
//	n1 n2 n3             nats-server, one cluster, each on an ext4 of its own where
//	                     there is the right to mount; each route goes through a proxy
//	worker1 worker2 …    idworker serve --role worker --api
//	loader1 loader2      idworker serve --role loader
//	enricher1 enricher2  idworker enrich
//	database             with STORE=mysql or postgres: a primary and an asynchronous replica
//	callers              request IDs all the time, each kind at its own rate
//
// Each process reaches each server, and the database, through a proxy of its
// own; all callers share a proxy for each server and for each
// worker's HTTP. The second process of each role has the race detector. A
// process that ends is restarted after a second. Faults set the programs'
// clocks: package time is compiled with an offset that it reads from a file
// ([ClockFile]). libfaketime cannot do that, since Go programs read the kernel's
// clock without libc.
//
// Requests by HTTP go to the workers in turn, and on to the next worker after a
// refusal, a lost connection or 3 s of silence, as behind a load balancer. So a
// worker that is cut off from the servers gets requests, too.
//
// # Checks
//
// The verdict is about safety alone. Slow recovery, calls that outlive their
// contexts and processes that end late are lines of the report. A run fails for
// slowness only if nothing recovers for minutes.
//
// Every answer goes through [Judge], in the order of arrival, a second later,
// when its grants have arrived.
//
//   - No ID twice: all IDs of a tag are in a set (worker/history), those of
//     enriched events included.
//   - Order: the highest ID received before a request was sent is below all IDs
//     of its answer: for a strict tag, for all workers; for other tags, for the
//     same worker; for snowflake IDs, for the same worker ID.
//   - Granted: the answer lies in segments granted to a single worker; no two
//     grants overlap. Grants are read off the wire at each server; grants
//     missed while a server failed are counted.
//   - Events: event k of the target is event k of the source, with an ID of its
//     own; `idworker enrich verify` agrees at the end.
//   - Processes report no data race and no panic.
//   - The store ends above every ID of every tag that it lists.
//
// All answers are written to a compressed file, a line each ([Call]).
// [CheckHistory] checks such a file alone, also a file of `idworker bench
// --history`. After a violation the run's folder stays; the last line names it.
package nemesis
