// Package kv is what idworker needs of JetStream's buckets beyond nats.go: creating
// them, reading and writing single keys, and reading whole buckets.
//
// # Creating
//
// A [Resource] is a bucket, a stream or a consumer with the settings it should have.
// A process that serves calls [Ensure], which looks first and creates only what is
// missing: where an administrator has created everything, the process needs no right
// to create anything. An administrator calls Apply, which also corrects replicas and
// ages. Other differences count as intended; an unsafe one is an error.
//
// Neither deletes or empties anything: an emptied bucket of counters issues all IDs
// again. For the same reason neither creates a bucket if there is [Evidence] that it
// existed before. Streams get lost with a disk, when a single server joins a cluster,
// or when somebody cleans up.
//
// # Reading and writing
//
// A [Bucket] is open: Get reads a key from the leader, Update writes it at a revision,
// Edit does both until no other writer is faster. Nothing here concludes from an
// unknown outcome: the register burns, a lease reads back and compares its nonce, the
// rest edits again.
//
// [Follow] reads a whole bucket in the order of its revisions, then every change;
// [List] stops at the end. [WithRetry] repeats a call while a stream has no leader.
//
// Files: resource.go (the interface, and the three kinds), older.go (evidence),
// cell.go (single keys), feed.go and gate.go (whole buckets), retry.go.
package kv
