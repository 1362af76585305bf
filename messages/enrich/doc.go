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
// There is one record per target stream, in the KV bucket ids_enrich, and it is moved only by
// compare-and-set. It says: all events of the source through sequence Done, which was stored
// at Time, are in the target, whose last sequence was then Last. And it has the plans of
// what follows, two at most: which source sequences will be at Last+1, Last+2 and so on. A
// batch goes like this:
//
//  1. Read the events that follow, at most 1,000, and get IDs for them.
//  2. Save the plan in the record, while the batch before is still under way. It has no IDs.
//  3. Publish the batch, each message on the condition that it gets the sequence that the
//     plan says. Only an answer that names the target, this batch and its size counts, or
//     the target and the sequence of an event that is published alone.
//  4. Move Done, Time and Last on, in memory; the next plan saves them.
//
// So two invariants hold. For each sequence of the target the record says which event is
// there, before any enricher publishes it; and the target takes a message only at its own
// sequence, once. Whoever finds plans in the record, after a crash, a pause or a lost answer,
// asks the target for its last sequence, and knows how much of the plans has arrived: all,
// nothing, or a part. The rest is published as it was planned, with new IDs, since nobody has
// seen those of a message that was refused. It does not matter what is consumed, deleted or
// expired in the target meanwhile, and a late message of an earlier owner is either refused
// or carries the very event that belongs there.
//
// A plan must therefore never change while a late message of it can come. If it has to,
// because the source has removed an event of it, or one can no longer be stamped, then the
// plans are dropped and the record is put in Doubt: positions prove nothing then, and the
// headers of the target's last message say how far the enrichment is. The doubt
// ends when a batch of the new plan is confirmed: every earlier message then comes too late.
//
// The headers of the last message also decide if somebody else has written to the target, or
// if the record went back to an older one. If that message is gone, nobody can tell.
//
// # Two kinds of batches
//
// An atomic batch is stored as a whole or not at all. A server without replicas stages it on
// disk, in files of its own which it syncs and removes, even if it syncs nothing else. That
// takes longer than the messages themselves. So an event that is alone is no batch, but a
// message on the same condition. And a target with allow_batched and
// without replicas therefore gets fast batches: each message carries the condition, and the
// server ends the batch with the first one that it refuses, so that what is stored is a
// beginning of the batch. (With replicas a message is counted before it is stored; if storing
// fails the next one would take its place.) Where the server syncs every write, an atomic
// batch is synced once and a fast one at every message: then leave allow_batched off.
//
// A plan may be published in parts, one after the other: if the server takes fewer messages in a
// batch, and smaller ones each time that somebody else was quicker. Ten refusals in a row count
// as a failure. Who writes to the target without a break keeps enrichers from it; no guard that
// holds for any time could let both through.
//
// # Evidence
//
// Nothing is concluded from what is missing, and nothing from a sequence alone: a stream that was
// restored or created again has other messages at the same ones. Each record has a random name,
// its chain. Each message that is published says its event, the chain, and when the source
// stored the event ([HeaderChain]). It is evidence only if all three fit.
//
// The source is that of the record, or of a message, if it has the event, stored at that time. If
// the event is gone, what is left before it must not be younger, and what comes next not
// older. That is enough, because the times of a stream ascend. A stream that was created again,
// or restored, has stored all that is new in it later than anything that was enriched. If
// some of that were passed over, at or before the record's event, it would be younger. What is
// to come is not older than the event, so it was not enriched before. Only new events that were
// removed before anybody looked go unnoticed.
//
// The target is that of the record if the message at Last is the one that was published there
// (AtLast), or that is gone. Events of another chain behind Last are those of another enrichment
// or of a lost record: an error. Dead letters of other chains, and what the target copied from
// other streams, are as any message of somebody else.
//
// Otherwise, or if the record is missing though the target has had messages, or the target ends
// below Last, or the record has other settings (the source, the filter, the subjects, the kind
// of ID, the JSON path, the installation if both know it): the enrichment stands still, with
// [ErrUndecided], and goes on by itself when what is missing is there again. Or an operator
// decides, with [Resume]. It reads the target back to the last message of an event of this source,
// of whatever chain, or to the record's Last, and refuses what that disproves. If messages behind
// that are gone, nobody knows what they were: then it takes [ResumeUnproven]. Before an
// ErrUndecided counts, the record is read again: if it has moved on, the finding was about an
// old one.
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
// # Reading
//
// A producer can send an event with any header and no body. Package streamread reads them all,
// and says how. What is asked for at once is bounded in events and in bytes. If reading ends, the
// turn does, so that the next one finds out whether the source is still the same. A sequence
// that the source removed before it was read is counted and logged; with [Stop] the enrichment
// stands still there. Which subject it had is not known any more, so behind a filter that leaves
// something out the count is a guess, and [Stop] is refused.
//
// The events of a plan are read again by sequence. They count only if the source has the last of
// them from the time that the plan says, and if they are on subjects of the filter. What is
// answered by sequence is JSON: an event whose subject is not UTF-8 is taken out of the plan,
// and read in order again.
//
// # What cannot be stamped
//
// Some events cannot be stamped: those with broken JSON or a header that cannot be decoded,
// those that are too large once they are stamped, those of a tag that does not exist or is
// used up, if the tag depends on the event, and those that already have an ID where that is
// refused. Such an event goes to the dead-letter subject with the reason. If the target
// takes that subject, the dead letter has its place in the plan, like an event. Otherwise it
// is stored before the plan that passes it is saved; after a crash in between it goes there
// again. A dead letter that is too large for where it goes, as the stream or the server says, is
// shortened: without the event, and with the beginning of its subject. Without a dead-letter
// subject, or room for 1,024 bytes there, the enrichment stands still before the event and says so.
//
// Loops are refused, of events and of dead letters, if the source takes their subject or copies
// their stream. A loop over a third stream is not found: nobody needs the right to see that.
//
// # How it fails
//
// If there are no IDs, if the source or the target is away, or if the target is full or
// sealed, the batch is tried again for as long as it takes. Events before one that has to
// wait do not wait. Nothing is skipped, and each outage logs one line when it begins and one
// when it ends. It ends when a batch has landed, or when nothing waits, as the source itself says:
// not because the record can be saved.
//
// # Where things are
//
// [Open] checks the streams (streams.go), and [Enricher.Run] waits for the turn and runs it
// (turn.go). A turn begins by taking over the record (record.go): are the streams still those
// of the record (evidence.go), and what became of its plans (settle.go)? Then events are read (reader.go),
// stamped (prepare.go, stamp.go, ids.go, deadletter.go) and published (publish.go).
package enrich
