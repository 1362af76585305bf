// Package enrich stamps the events of one JetStream stream with IDs and publishes them
// to another: no event is lost, none is there twice, and none gets two IDs.
//
// # Why a window is not enough
//
// The usual guard, a Nats-Msg-Id that the target remembers, lasts for the target's
// duplicate window. An enricher that dies between publish and acknowledgement and comes
// back later than that publishes the event again, with another ID. So nothing here is
// guarded by time. What decides is the target's last sequence, which only ever goes up,
// whatever is deleted, consumed or expired there.
//
// # The chain
//
// One record per enrichment, in the KV bucket ids_enrich and moved by compare-and-set
// only, says: all events of the source through sequence Done are in the target, whose
// last sequence was Last then. One step goes like this:
//
//  1. Read the events that follow Done, at most 1,000, and get IDs for them.
//  2. Save the plan in the record: which source sequence gets which ID.
//  3. Publish the batch, atomically, on the condition that the target's last sequence
//     still is Last. The target takes all of it or nothing.
//  4. Done and Last move on, in memory; the next plan saves them.
//
// Whoever finds a plan in the record after a crash, a pause or a lost answer asks the
// target for its last sequence. It is Last: the batch did not arrive, and the same one is
// published again, with the same IDs. It is Last plus the size of the batch: it did
// arrive. Anything else: somebody else writes to the target too, and the messages
// behind Last are read; the header Ids-Source says which are ours. If they are gone
// already, nobody can tell, and the enrichment stops with [ErrAmbiguous] rather than guess.
// So the target is for one enrichment alone. Where others write to it, and its messages are
// removed at once too, as many of theirs as the batch has would pass for the batch.
//
// An enricher that was paused at any point and wakes up late can do no harm. Its plan is
// the record's plan, or the record has moved on and so has the target's last sequence.
//
// A record is about one filter. An enricher with another one stands still and says so,
// because each would pass over the events of the other.
//
// # Turns
//
// A stream takes one message after the other, so two writers at once gain nothing, and
// two positions in one source would lose its order. Enrichers of one enrichment therefore
// take turns of a second: the one whose turn it is, the owner, hands over to one that
// asks on ids.enrich.<name>. An owner saves the record at least once a second. One that
// has not for [takeover] is taken to be dead, and the next one goes on. That is a matter of
// speed only: were there two owners, compare-and-set on record and target lets one through.
//
// So the order of the source is the order of the target, over all subjects and any
// number of enrichers, through crashes too.
//
// # What cannot be stamped
//
// An event with broken JSON, too large once stamped, of a tag that does not exist, or
// with an ID already where that is refused goes to the dead-letter subject with the
// reason, before the step that passes it; a crash in between sends it there again. Without
// a dead-letter subject the enrichment stands still before it and says so.
//
// # How it fails
//
// IDs, source or target away, target full or sealed: the step is tried again for as long
// as it takes, nothing is skipped, and one line is logged per outage. A record that is lost
// is taken up where the last event in the target says; if that is gone too, at the first
// event of the source. Deleting and making anew the source or the target starts the record
// anew, with a warning.
package enrich
