// Package nemesis runs a whole installation of real processes, rains faults on it from a seed,
// and checks every ID and every enriched event while it does and at the end. `make nemesis` runs
// it:
//
//	make nemesis                                       two minutes, a seed of its own, JetStream
//	make nemesis DURATION=20m SEED=7 STORE=postgres    or mysql
//
// # The schedule
//
// [Faults] makes the schedule from a seed and from nothing else: the same seed and store give the
// same faults, with the same victims, in the same order and at the same times; a longer run
// begins as a shorter one does. Faults come every 3 s on average, and last up to 30 s, so several
// are there at a time. They come in storms of 36 s. After each storm everything is mended, and the
// next one waits until each kind of caller was answered again, and an event has arrived that came after
// the faults, behind all others: 15 s, or longer if that takes longer.
// Once the register was put back to an older state, all tags are raised, as an administrator does.
// Which server leads a stream is not in the schedule. A fault that is for a leader names the
// stream, and the log of the run says who it was.
//
// # The cast
//
//	n1 n2 n3             nats-server, one cluster; each route goes through a proxy
//	worker1 worker2 …    idworker serve --role worker --api
//	loader1 loader2      idworker serve --role loader
//	enricher1 enricher2  idworker enrich
//	database             with STORE=mysql or postgres: a primary and an asynchronous replica
//	callers              ask for IDs all the time
//
// Each process reaches each server, and the database, through a proxy of its own (toxiproxy), and
// all callers through one for each server, and one for each worker's HTTP. A second process of each
// role is built with the race detector. One that ends by itself is started again after a second, as a
// supervisor does. The programs' clocks are set by the faults: they are compiled with a package time
// that adds to the time of day what a file says ([Clock]). libfaketime cannot do that, since Go
// programs ask the kernel and not libc.
//
// Callers, each kind at a rate of its own: single IDs and batches with the Go client; a
// prefetcher; raw requests, whose answers count whenever they come; strict tags, raw too; tags of
// a template; snowflake IDs, one by one and in batches; IDs of ordinary and of strict tags by HTTP,
// as JSON, as text and in Leaf's way, over connections that are kept; and events that are published
// to be enriched. Requests by HTTP go to the workers in turn, and on to the next when one refuses, is
// gone or has been silent for 3 s, as they would behind a load balancer. So a worker that is cut off
// from the servers is asked, too, and may answer only what is still its own.
//
// # The checkers
//
// The verdict is about safety alone. How soon service came back, calls that outlived their contexts and
// processes that ended late are lines of the report. Only if nothing comes back for minutes the run
// fails, because then there is nothing left to check.
//
// Every answer goes through [Checker], in the order in which the answers came, a second later,
// when the grants are known from which it was made.
//
//   - No ID twice: all IDs of a tag are in one set (internal/history), which is small if there
//     are few gaps. Enriched events are in the set of their tag, too.
//   - Order: the highest ID that had been received before a request was sent is below all IDs of
//     its answer: of a strict tag, whoever answered; of other tags, if the same worker answered;
//     of snowflake IDs, by the worker ID in them.
//   - Granted: the answer lies in segments that one worker was granted; no two grants overlap.
//     Grants are read off the wire at each of the servers. Those that passed while a server
//     failed may be missing, which is counted.
//   - Events: event k of the target is the kth of the source, with an ID of its own; `idworker
//     enrich verify` agrees at the end.
//   - Processes: none reports a data race or a panic.
//   - The store: at the end it is above every ID of every tag.
//
// Parts of the history of the strict tags also go to testing/order, which shares no code with
// this.
//
// # The history
//
// All answers are written to a file, compressed, one line each ([Call]). [CheckHistory] checks
// such a file alone: no ID twice and the order of strict tags and snowflake IDs. So it does with
// what `idworker bench --history` has recorded of another installation.
//
//	make history FILE=history.gz
//
// On a violation the folder of the run stays: schedule, log and history of the run, logs of
// all processes, the table. Its name is in the last line, with the seed.
package nemesis
