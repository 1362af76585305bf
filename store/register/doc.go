// Package register stores how far the IDs of each tag were granted, in one entry a tag of
// the JetStream KV bucket <prefix>_register:
//
//	trend   {"next":1001,"step":1000}          removed: {"next":1001,"step":1000,"removed":true}
//	strict  {"next":1001,"step":1000,"order":"strict"}
//
// A grant of [first, end) is one compare-and-set that moves next from a value ≤ first to
// end, on the revision that was known, and whose answer was received. Nothing else is
// relied on: an old read makes the write fail, a lost answer makes a gap, and it does not
// matter how many processes there are, nor where the range comes from.
//
// By itself the register grants what follows next, with one write. In front of a
// [store.Table] the table proposes the range. If it lies below next, the row went back, or
// another loader was faster; it is discarded, and the table asked again. A row that went
// back is raised. Entries have no step then, and the rows decide which tags there are.
//
// The order of a tag is written with its entry, and every later write repeats it. A grant
// has the order that it wrote. In front of a table, a creator writes the entry before the
// row, marked as removed, and takes off the mark after that; removing a tag marks the entry
// before it deletes the row. So a missing row contradicts an entry without the mark, which
// is [store.ErrCorrupt]. A row without an entry was inserted by hand, and is trend.
//
// # A register that went back
//
// No condition shows that the bucket itself is an older copy. So each process remembers
// the highest sequence of the stream that it has seen in answers, reads and polls, and
// polls the leader once a second, and before the first write after a start, a reconnect,
// an error or an unknown outcome. It stops granting, with a [*store.RegressionError], if
//
//   - a poll shows less than had been seen when the poll was sent, fewer entries, another
//     identity of the stream, or no stream;
//   - the answer to a write has a sequence that is not above all that had been seen when
//     the write was sent;
//   - the leader has an entry that is lower than the process has read or written it.
//
// It repairs nothing. [Store.RaiseAll] raises all entries, and writes a decision to the
// metadata of the stream, with the lowest first ID of tags that are created from then on:
// a tag of such a name may have been lost. Loaders that see a decision for the first time
// go on if the register holds all that they have cached. A stream that was only away, and
// holds all that was seen, needs no decision.
//
// A [Witness] keeps what was seen in a file, for the next start. docs/proofs/register.md
// has the argument, docs/spec/register.pml the model.
//
// # Files
//
//	store.go     opening, the cache, one write, one read
//	reserve.go   what loaders call: look up, reserve, create
//	rows.go      the same with a table: rows that went back, or are missing
//	watch.go     polls, and the conclusions drawn from them
//	evidence.go  what is compared        witness.go  and kept in a file
//	admin.go     creating, raising, removing and listing tags; the decision
//	remote.go    the bucket, as a server has it
package register
