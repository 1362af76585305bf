// Package worker is the NATS side of idworker: it answers requests for IDs from
// the buffers of an allocator, and keeps those buffers filled.
//
// [New] makes a [Process] from a [Config], [Process.Start] starts it. A process
// has one role or both:
//
//	worker   answers requests in the queue groups, and requests segments from loaders
//	loader   reserves segments in a store, and grants them to workers
//
// # Rooms
//
//	process.go       a process: its parts, in the order in which they start
//	answer           a request: from memory, parked, or refused
//	supply           a worker's loads and the grants that answer them
//	load             a loader: queues, slots, the store's health, look-ups
//	groups.go        the two queue groups that a worker is in
//	queuegroup.go    one of them: entering, leaving, overload
//	endpointconn.go  its member, on a connection of its own, made in dial.go
//	queuedelay.go    how long requests queue
//	workerid.go      the worker ID of snowflake IDs
//	direct.go        requests that do not come by NATS
//	installation.go  another installation on the same subjects
//	service.go       the process in the NATS services API
//	processes.go     the questions to all processes; report.go: their answers
//
// docs/walks.md follows a request, a load and a start through the files.
//
// # Invariants
//
//  1. Only the store decides who owns a range. A load that is lost on its way
//     costs time and a gap, and never a duplicate.
//  2. A request never waits for a store unless memory is empty or its tag is
//     strict.
//  3. A worker's window bounds its open loads, and a loader's slots bound its
//     calls. The rest waits in the worker, where it costs nothing.
//  4. One place retries, the allocator. A loader answers every load that it
//     takes.
//  5. A queue group is left by draining a whole connection, so that no delivered
//     request is lost and no dead member stays behind.
//  6. A process has one member of a queue group at a time, so a tag's IDs stay
//     in order.
//  7. A load event or grant of another installation is dropped.
//
// # Start and stop
//
// No part serves before another installation was looked for. The queue groups
// are joined last, when grants can reach the process, and left first. Then
// delivered requests are handled, the worker ID is released, parked requests
// are answered. The loader serves waiting loads for 3 seconds at most, and hands
// the rest back to the stream.
package worker
