// Package kv adds to nats.go's JetStream buckets: creating them safely, reading
// and writing single keys, and reading whole buckets.
//
// # Creating
//
// A [Resource] is a bucket, a stream or a consumer with its intended settings.
// A serving process calls [Ensure], which creates only missing resources: if an
// administrator has created them all, the process needs no right to create. An
// administrator calls Apply, which also corrects replicas and ages. Other
// differences count as intended; an unsafe setting is an error.
//
// Neither deletes or empties anything: an emptied bucket of counters would
// issue all IDs again. For the same reason neither creates a bucket if there is
// [Trace] that it existed before. Streams get lost with a disk, when a
// single server joins a cluster, or by an operator's mistake.
//
// # Reading and writing
//
// A [Bucket] is open: Get reads a key from the leader, Update writes it at a
// revision, Edit repeats both until no other writer is faster. Nothing here
// draws conclusions from an unknown outcome: the register burns the range, a
// lease rereads its nonce, the rest edits again.
//
// [List] reads a whole bucket and needs no leader; [ListAll] compares its end
// with the leader. [Count] has the server count keys. [WithRetry] repeats a call
// while a stream has no leader.
//
// A consumer's entries are pushed by the server, and limited by flow control.
// Package streamread pulls instead, and reads no bucket by a consumer, for two
// reasons:
//
//   - Rights. Users of buckets may answer flow control ($JS.FC), but not request
//     messages (CONSUMER.MSG.NEXT). The nats.conf of version 0.2.0 must suffice.
//   - Leases. A worker claims a worker ID although the bucket's leader has just
//     died: any replica's list took 1 ms. A reader that confirms its end with the
//     leader waited for 5 s.
//
// A million entries are no reason: both take 2 to 3 s, a pull with half of the
// memory.
//
// Files: resource.go (the interface, and the three kinds), older.go (evidence),
// cell.go (single keys), bulk.go (many keys), list.go and feed.go (whole
// buckets), retry.go, version.go (the oldest server).
package kv
