// Package verify proves, from the two streams of an enrichment alone, that
// enriching did what it promises. It shares no code with package enrich that
// reads, stamps or publishes events, and does not look at the record.
//
// # What is proved
//
// At its start [Verifier.Run] fixes a point: the source's last sequence. Each
// event of the source under the filter, through the point, gets one verdict:
//
//   - there: in the target once, behind all events that come before it, with
//     one ID from 1 to 2^63-1: the one that it came with, if it had one, and at
//     the JSON path the same. Subject, body and own headers are the source's.
//   - dead: among the dead letters.
//   - missing, doubled or out-of-order.
//   - changed or bad-id: it is there, and not as it should be.
//   - gone: not verifiable, since what could prove it has been removed.
//   - waiting: behind the last event that has arrived.
//
// No other event of its tag has an event's ID. What breaks one of these, and
// what is foreign to the target, is a [Finding]: a fact, not a suspicion.
//
// A message is of this enrichment if the headers Ids-Source and Ids-Chain name
// the source, the target, and when the source stored the event. A chain that
// another one followed publishes no more: two enrichments in turns are a finding
// for each such chain. Unless a message is
// in all respects what an enricher makes of that event, it is a finding of its
// own, and makes nothing else missing, out of order or shared. An exact copy
// is taken for the event. At an earlier place it leaves that event doubled, and
// those in between out of order.
//
// # What is not
//
//   - Each message that was removed explains one absent event: from the target,
//     one at that place; from the dead letters, any that may have had its letter
//     there. If fewer were removed than are absent, the first count as gone. An
//     event that is older than the target, and before all that is in it, may
//     have been in an earlier stream of that name.
//   - An event whose original has been removed from the source (an orphan) is
//     checked only for its order and its ID.
//   - What an operator decided about: [Config.After] leaves those events out.
//   - A line break in a header value became a space: no client can send it.
//   - A header Ids-Id that was changed to an unused number, without a JSON path.
//
// # How
//
// Order makes it a merge: both streams are read once, side by side (walk.go).
// The target is read through its last sequence as it was before the point was
// fixed, and the dead letters after that, since one is published before the
// batch that passes its event. So enrichers may run meanwhile. An absent event
// may still come, late; so what was removed (removed.go) is counted at the end.
// Only to name events that are missing, the source is read there again.
//
// # Memory
//
// About 50 bytes for each run of consecutive IDs of a tag, at worst one ID: 50 MB
// for a million random IDs, a few KB for a million from one tag. About 100
// bytes for each dead letter, each run of absent events, each place where
// messages were removed, and each event that is late or wrong.
package verify
