// Package verify proves, from the two streams of an enrichment alone, that enriching did what
// it promises. It shares no code with package enrich that reads, stamps or publishes events,
// and does not look at the record.
//
// # What is proved
//
// At its start [Verifier.Run] fixes a point: the source's last sequence. Of each event of the
// source under the filter, up to the last that has arrived, it proves:
//
//   - It is in the target once, or among the dead letters.
//   - It comes behind all events that come before it in the source.
//   - It has one ID, a number from 1 to 2^63-1: the one that it came with, if it had one, and
//     at the JSON path the same one as in the header.
//   - No other event in the target has that ID, among those of the same tag.
//   - Its subject, its body and its own headers are those of the source's event.
//
// And of each message in the target, on subjects that events go to, that it is an event of
// this source. Messages of others on other subjects are counted and otherwise ignored; there is
// no event of this source there.
//
// The header Ids-Chain says which chain published a message, to which target, and when the source
// stored its event. An event in the target was published for it, and made of an event that was
// stored then; and a chain that another one has followed publishes no more. A dead letter that
// was published for another target is of another enrichment, and one about an event that was
// stored at another time is of another source of that name: they prove nothing. Older versions
// did not write the header; their messages are taken at their word.
//
// What breaks one of these is a [Finding]. A finding is a fact, not a suspicion.
//
// A message that says it is an event proves only what it can be compared with. Unless it is in all
// respects what an enricher makes of that event, it is a finding of its own and passes over no event
// of the source: nothing else is missing or out of order because of it. One that agrees in all respects
// is taken for the event. If somebody copies an event to an earlier place, that event is doubled, and
// those in between are out of order.
//
// # What is not
//
// Nothing is concluded from what is not there any more:
//
//   - Where as many messages have been removed from the target as there are events missing,
//     these events are not verifiable. Likewise if they may have been dead letters, which the
//     stream of dead letters lost at any place, or, if that is the target, nearby. Each message
//     that was removed explains one event. If there are fewer, the events that come first are
//     taken for those, because which they were is not known any more. What was removed before the first dead letter that is left explains only events
//     that are before that letter's event, or older than the letter. An event that is older
//     than the target, and comes before all that is in it, may have been in an earlier stream
//     of that name.
//   - What an operator decided about is not known. [Config.After] leaves those events out.
//   - An event in the target whose original has been removed from the source is only checked
//     for its order, its ID and its chain. It passes over no event that the source has.
//   - The server's own notes of what it removed from the target are no events. A line break in
//     a header value became a space, since no client can send it.
//   - Events behind the last that arrived are waiting. [Config.Wait] waits for them.
//
// A header Ids-Id that was changed to a number that no other event has cannot be noticed
// without a JSON path. Who changes both, or the originals, deceives any verifier.
//
// # How
//
// Order makes it a merge: both streams are read once, side by side, by package streamread. The
// target is read through its last sequence as it was at the start, and the dead letters after
// that was fixed, because a dead letter is published before the batch that passes its event.
// So enrichers may run meanwhile. An event that comes too late, behind a later one, was counted
// as missing before, and is then taken out of the missing ones; if it was not missing, it is
// there twice.
//
// IDs are remembered as ranges: consecutive IDs of a tag, as batches have them, are one. At the
// end, ranges that overlap are IDs that two events share. To name the other one of two events,
// the target is read a second time.
//
// # Memory
//
// At least 24 bytes for each range of IDs of one tag, which is at worst one ID; 16 bytes for
// each dead letter; 24 bytes for each run of missing or not verifiable events. Slices grow by
// up to a quarter beyond that. A million events with IDs from one tag take a few KB, and with
// random IDs that they came with 32 MB. A tag takes about 100 bytes more.
package verify
