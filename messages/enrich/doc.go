// Package enrich stamps the events of one JetStream stream, the source, with IDs and
// publishes them to another, the target: no event is lost, none arrives twice, and
// none gets two IDs. docs/proofs/enrich.md has the argument.
//
// # Invariants
//
// One record per target, in the KV bucket ids_enrich, moves by compare-and-set. It
// names the event at each sequence of the target before any enricher publishes it. The
// target takes a message only at its own sequence, once. Nothing is concluded from a
// missing message, nor from a sequence alone: chain, sequence and time have to fit
// ([HeaderChain]). Otherwise the enrichment stands still, with [ErrUndecided], until the
// evidence is back, or an operator decides, with [Resume].
//
// # Turns
//
// A stream takes one message after the other, so two writers at once gain nothing, and
// two positions in one source would lose its order. The enrichers of one enrichment take
// turns of a second each. The owner, the enricher whose turn it is, hands the turn over to
// one that asks for it on ids.enrich.<name>. An owner saves the record once a second. If
// it has not done so for [ownerTimeout], the next enricher takes over. That only decides
// how fast: of two owners, compare-and-set on record and target lets one through. So the
// order of the source is the order of the target, over all subjects, and through crashes.
//
// # Reading
//
// Package streamread reads events with any header and without a body. Requests are bounded
// in events and in bytes. A turn ends with its reader, so that the next one checks whether
// the source is still the same. Removed events are counted and logged; with [Stop] the
// enrichment stands still there. Their subjects are lost, so behind a filter that leaves
// something out the count is a guess, and [Stop] is refused.
//
// The events of a plan are read again by sequence. Those answers are JSON: an event whose
// subject is not UTF-8 leaves the plan, and is read in order again.
//
// # Dead letters
//
// An event that cannot be stamped goes to the dead-letter subject with the reason. If the
// target takes that subject, the dead letter has its place in the plan, like an event.
// Otherwise it is stored before the plan that passes it is saved; after a crash in between
// it goes there again. One that is too large is shortened. Without a subject, or room for
// 1,024 bytes there, the enrichment stands still before the event.
//
// # Failures
//
// Without IDs, source or target the batch is tried again for as long as it takes. Events
// before one that has to wait do not wait. An outage logs one line when it begins and one
// when it ends: when a batch has landed, or the source has no event that waits.
//
// # Files
//
// [Open] checks the streams (streams.go), and [Enricher.Run] waits for the turn and runs
// it (turn.go). A turn begins by taking over the record (record.go): are the streams those
// of the record (evidence.go), and what became of its plans (settle.go)? Then events are
// read and stamped (prepare.go, stamp.go, ids.go, deadletter.go) and published (publish.go).
// [List], [Standing.Measure] and [Retire] are for administrators (list.go).
package enrich
