// Package verify proves, from the two streams of an enrichment alone, that it
// kept its promises. It shares no code with package enrich that reads, stamps
// or publishes events, and ignores the record.
//
// # What is proved
//
// At its start [Verifier.Run] fixes a point: the source's last sequence. Each
// event of the source under the filter, through the point, gets one verdict:
//
//   - there: in the target once, after all earlier events, with one ID from 1
//     to 2^63-1: its original ID, if any, and at the JSON path the same.
//     Subject, body and own headers are the source's.
//   - dead: among the dead letters.
//   - missing, doubled or out-of-order.
//   - changed or bad-id: in the target, but not as it should be.
//   - gone: not verifiable, since the evidence was removed.
//   - waiting: after the last event that has arrived.
//
// No other event of its tag has an event's ID. Every violation, and every
// foreign message in the target, is a [Finding]: a fact, not a suspicion.
//
// A message is of this enrichment if the headers Ids-Source and Ids-Chain name
// the source, the target, and when the source stored the event. A chain that
// another chain followed publishes no more: two enrichments in turns are a
// finding for each such chain. A message that differs in any way from an
// enricher's is a finding of its own, and makes nothing else missing, out of
// order or shared. An exact copy counts as the event. At an earlier place it
// makes that event doubled, and the events in between out of order.
//
// # What is not
//
//   - Each removed message explains one absent event: from the target, at that
//     place; from the dead letters, any that may have had its letter
//     there. If fewer were removed than are absent, the first count as gone. An
//     event that is older than the target, and before all events in it, may
//     have been in an earlier stream of that name.
//   - An event whose original was removed from the source (an orphan) is
//     checked only for its order and its ID.
//   - Events that an operator decided about: [Config.After] leaves them out.
//   - A line break in a header value became a space: no client can send it.
//   - A header Ids-Id that was changed to an unused number, without a JSON
//     path.
//
// # How
//
// Both streams are read once, side by side, as in a merge (walk.go). The target
// is read through its last sequence from before the point was fixed, and the
// dead letters after that, since each is published before the batch that passes
// its event. So enrichers may keep running. An absent event may still arrive
// late; so removed messages (removed.go) are counted at the end. The source is
// read again only to name missing events.
//
// # Memory
//
// About 50 bytes for each run of consecutive IDs of a tag, at worst a single
// ID: 50 MB for a million random IDs, a few KB for a million of the same tag.
// About 100 bytes for each dead letter, each run of absent events, each place
// of removed messages, and each late or wrong event.
package verify
