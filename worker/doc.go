// Package worker is the NATS side of idworker: it answers requests for IDs from
// the buffers of an allocator, and keeps those buffers filled.
//
// [New] makes a [Process] from a [Config], [Process.Start] starts it. A process
// has one or both roles:
//
//	worker   answers requests in the queue groups, requests segments
//	loader   reserves segments in a store, grants them to workers
//
// # Files
//
//	process.go       a process: its parts, in starting order
//	internal/answer  a request: answered, parked, or refused
//	internal/supply  a worker's loads and the grants that answer them
//	internal/loader  a loader: queues, slots, the store's health, look-ups
//	internal/decision  the operator's decisions: looks for them, gates until then
//	groups.go        the queue groups of a worker: entering, leaving, overload
//	endpointconn.go  a queue group member on its own connection (dial.go), and
//	                 the delay of requests in queues
//	workerid.go      the worker ID of snowflake IDs
//	direct.go        requests that do not come over NATS
//	claims.go        what processes report to each other about the register
//	installation.go  another installation on the same subjects
//	processes.go     the process in the NATS services API; requests to all
//	report.go        what a process reports; its metrics
//
// docs/design.md follows a request and a load through these packages.
//
// # Invariants
//
//  1. Only the store decides who owns a range. A lost load costs time and a gap,
//     never a duplicate.
//  2. A request waits for a store only if the buffer is empty or its tag is
//     strict.
//  3. A worker's places bound its open loads, a loader's slots bound its calls.
//     All other loads wait in the worker, where they cost nothing.
//  4. Only the allocator retries. A loader answers every load that it takes.
//  5. A process leaves a queue group by draining a whole connection, so that no
//     delivered request is lost and no dead member stays behind.
//  6. A process has one member of a queue group at a time, so a tag's IDs stay
//     in order.
//  7. A load event or grant of another installation is dropped.
//
// # Start and stop
//
// No part serves before the process has looked for other installations. The
// queue groups are joined last, when grants can reach the process, and left
// first. Then the process handles delivered requests, releases the worker ID,
// and answers parked requests. The loader serves waiting loads for 3 seconds at
// most, and hands the rest back to the stream.
package worker
