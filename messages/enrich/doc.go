// Package enrich stamps the events of a JetStream stream, the source, with IDs
// and publishes them to another, the target: no event is lost, none arrives
// twice, and none gets two IDs. docs/proofs/enrich.md has the argument.
//
// # Invariants
//
// One record per target, in the KV bucket ids_enrich, moves by compare-and-set.
// It names the event at each sequence of the target before any enricher
// publishes it. The target accepts a message only at its own sequence, once.
// Neither a missing message nor a sequence alone proves anything: chain,
// sequence and time have to fit ([HeaderChain]). Otherwise the enrichment
// stops, with [ErrUndecided], until the evidence is back, or an operator
// decides, with [Resume].
//
// # Turns
//
// A stream accepts messages in sequence, so two concurrent writers gain
// nothing, and two positions in a source would lose its order. The enrichers of
// an enrichment take turns of a second each. The owner, the enricher whose turn
// it is, hands the turn over to another that requests it on ids.enrich.<name>.
// An owner saves the record once a second. After [ownerTimeout] without a save,
// the next enricher takes over. That only affects speed: of two owners,
// compare-and-set on record and target lets one through. So source and target
// have the same order, over all subjects, and through crashes.
//
// # Reading
//
// Package streamread reads events with any header and without a body. Requests
// are bounded in events and in bytes. A turn ends with its reader, so that the
// next turn checks the source again. Removed events are counted and logged;
// with [Stop] the enrichment stops there. Their subjects are lost, so behind a
// partial filter the count is a guess, and [Stop] is refused.
//
// The events of a plan are read again by sequence. Those replies are JSON: an
// event whose subject is not UTF-8 leaves the plan, and is read in order again.
//
// # Dead letters
//
// An event that cannot be stamped goes to the dead-letter subject with the
// reason. If the target takes that subject, the dead letter has its place in
// the plan, like an event. Otherwise it is stored before the plan that passes
// it is saved; after a crash in between it is stored again. A large dead letter
// is shortened. Without a subject, or room for 1,024 bytes there, the
// enrichment stops before the event.
//
// # Failures
//
// Without IDs, source or target the batch is retried without limit. Events
// before a waiting event do not wait. An outage logs when it begins and when it
// ends: a batch has landed, or no event waits.
//
// # Files
//
// [Open] checks the streams (streams.go), and [Enricher.Run] waits for the turn
// and runs it (turn.go). A turn begins by taking over the record (record.go):
// it identifies the streams (evidence.go) and settles the plans (settle.go).
// Then it reads and stamps events (prepare.go, stamp.go, ids.go, deadletter.go)
// and publishes them (publish.go). [List], [Standing.Measure] and [Retire] are
// for administrators (list.go).
package enrich
