// Package enrich stamps the events of one JetStream stream, the source, with IDs and
// publishes them to another, the target: no event is lost, none arrives twice, and none
// gets two IDs.
//
// # Why a window is not enough
//
// The usual guard, a Nats-Msg-Id that the target remembers, lasts for the target's
// duplicate window. An enricher that dies between publishing an event and learning of the
// acknowledgement, and comes back after that window, publishes the event again, with
// another ID. So nothing here is guarded by time. What decides is the target's last
// sequence, which only ever goes up, whatever is deleted, consumed or expired there.
//
// # The chain
//
// There is one record per enrichment, in the KV bucket ids_enrich, and it is moved only by
// compare-and-set. It says: all events of the source through sequence Done are in the
// target, whose last sequence was then Last. A batch goes like this:
//
//  1. Read the events that follow Done, at most 1,000, and get IDs for them.
//  2. Save the plan in the record: which source sequence gets which ID.
//  3. Publish the batch, atomically, on the condition that the target's last sequence
//     still is Last. The target takes all of it or nothing.
//  4. Move Done and Last on, in memory; the next plan saves them.
//
// Whoever finds a plan in the record, after a crash, a pause or a lost answer, asks the
// target for its last sequence. If it is Last, the batch did not arrive, and the same batch
// is published again, with the same IDs. If it is Last plus the size of the batch, the
// batch did arrive. Anything else means that somebody else writes to the target too: then
// the messages behind Last are read, and the header Ids-Source says which are the
// enrichment's own. If they are gone already, nobody can tell, and the enrichment stops
// with [ErrAmbiguous] rather than guess. So the target is for one enrichment alone. If
// others write to it, and its messages are also removed at once, then as many of their
// messages as there are events in the batch would be mistaken for the batch.
//
// An enricher that was paused at any point and wakes up late can do no harm. Either its
// plan is still the plan in the record, or the record has moved on and with it the target's
// last sequence.
//
// A record is for one filter and one target subject. An enricher with another one stands
// still and says so, because each of the two would pass over the events of the other.
//
// # Turns
//
// A stream takes one message after the other, so two writers at once gain nothing, and two
// positions in one source would lose its order. The enrichers of one enrichment therefore
// take turns of a second each. The one whose turn it is, the owner, hands the turn over to
// one that asks for it on ids.enrich.<name>. An owner saves the record at least once a
// second. If it has not done so for [ownerTimeout], it is taken to be dead, and the next
// enricher goes on. That is only a matter of speed: if there were two owners,
// compare-and-set on the record and on the target would let only one of them through.
//
// So the order of the source is the order of the target, over all subjects and any number
// of enrichers, and through crashes too.
//
// # What cannot be stamped
//
// Some events cannot be stamped: those with broken JSON, those that are too large once they
// are stamped, those of a tag that does not exist, and those that already have an ID where
// that is refused. Such an event goes to the dead-letter subject with the reason, before
// the batch that passes it; after a crash in between it goes there again. Without a
// dead-letter subject the enrichment stands still before the event and says so.
//
// # How it fails
//
// If there are no IDs, if the source or the target is away, or if the target is full or
// sealed, the batch is tried again for as long as it takes. Nothing is skipped, and each
// outage logs one line when it begins and one when it ends. If the record is lost, the
// enrichment resumes after the source event last found in the target; if that is gone too,
// it starts at the first event of the source. If the source is deleted and created again,
// enriching starts at its first event. If the target is, it goes on where it was: earlier
// events are not enriched a second time. Both are logged as warnings.
//
// # Where things are
//
// [Open] checks the streams (streams.go), and [Enricher.Run] waits for the turn and runs it
// (turn.go). A turn begins by taking over the record (takeover.go): are the streams still
// those of the record (identity.go), and what became of the plan in it (settle.go)? Then
// events are read (reader.go), planned and stamped (prepare.go, plan.go, stamp.go), and
// published (publish.go, atomicbatch.go, deadletter.go).
package enrich
