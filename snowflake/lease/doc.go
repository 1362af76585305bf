// Package lease gives a process a worker ID for snowflake IDs, and makes sure
// that no two processes make the same ID with it.
//
//	m, err := lease.Open(ctx, lease.Config{JS: js, Layout: snowflake.Default()})
//	err = m.Run(ctx, func(s lease.State) {
//		if s.Generator != nil {
//			// join: s.Generator makes IDs with worker ID s.Worker
//		} else {
//			// leave: there is no worker ID; s.Err is the reason
//		}
//	})
//
// A hold lasts from a process's claim of a worker ID to its release. Its lease
// keeps other processes off the worker ID; its fence is the time that it owns,
// and may issue IDs for. All state is in three KV buckets:
//
//	<prefix>_workers  TTL      worker ID → lease: the holder, and its clock
//	<prefix>_clock    no TTL   worker ID → hi: all time below is reserved
//	<prefix>_config   no TTL   layout, the identity of the clock bucket, and
//	                           for how long JetStream may be away
//
//	          claim a free worker ID
//	┌─────────┐ ─────────────────▶ ┌──────┐ ─┐ about every TTL/3: write the
//	│ seeking │                    │ held │  │ lease, compare the clock,
//	└─────────┘ ◀───────────────── └──────┘ ◀┘ raise hi
//	          lost: revoke             │ stopped: revoke, give back
//
// # Invariants
//
//  1. The fences of successive holds do not overlap. Only the clock bucket
//     ensures that: its entries change by compare-and-set, and a hold uses time
//     once its write is confirmed. Clocks, pauses and leases play no part.
//  2. A process recognizes its own writes by their random numbers. So a resumed
//     snapshot of it is another holder.
//  3. While the clock bucket is not the installation's, no worker ID is claimed:
//     ErrClockLost. Nobody claims the time of a half of the worker IDs that it
//     may have lost: Lost.
//  4. A claimer queries all running processes before its first ID: after a
//     restore of JetStream, only they remember the time that they used.
//  5. A fence ends max(TTL, 15 s) after the last heartbeat began. In the upper
//     half of the worker IDs it ends after the declared outage, if that is
//     longer: so a holder serves that long without JetStream, unless its clock
//     jumps ahead, and a process that crashes blocks one of at most half of all
//     worker IDs for as long.
//  6. While the fence lasts, only another holder's entry, a clock that is off, or
//     another layout ends a hold.
//
// docs/proofs/lease.md has the argument why no ID is made twice, and the cases
// that remain.
//
// # Files
//
//	manager.go  seeks a worker ID, keeps it, and reports changes
//	admit.go    checks before a claim: layout, clock; that the clock bucket is
//	            the installation's, and not older
//	loss.go     the clock bucket lost entries: until when their time is reserved
//	outage.go   the declared outage, and which worker IDs have long fences
//	seek.go     chooses the worker ID: the configured, or a free one
//	hold.go     claims it, renews it with heartbeats, detects its loss
//	others.go   queries all other processes about it
//	release.go  gives back unused time
//	entry.go    writes an entry of a hold, rereads it after an error
//	clock.go    compares the clock with the server's and the other workers'
//	bucket.go   the buckets, and requests to their server
package lease
