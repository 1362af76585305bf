// Package register records the granted IDs of each tag, in one entry per tag of
// the JetStream KV bucket <prefix>_register:
//
//	trend   {"next":1001,"step":1000}  removed: {…,"removed":true}
//	strict  {"next":1001,"step":1000,"order":"strict"}
//
// A grant of [first, end) is one compare-and-set that moves next from a value ≤
// first to end, on the revision that was read, and whose reply was received.
// Correctness relies on nothing else: a stale read makes the write fail, a lost
// reply makes a gap. The number of processes and the origin of the range do not
// matter.
//
// Alone, the register grants the IDs from next on, with a single write. In
// front of a [store.Table] the table proposes the range. A range below next
// means that the row regressed, or that another loader was faster; it is
// discarded, and the table is asked for another. A regressed row is raised.
// Entries have no step then, and the rows decide which tags exist.
//
// The order of a tag is written with its entry, and every later write repeats
// it. A grant has the order of its own write. In front of a table, a creator
// writes the entry before the row, marked as removed, and clears the mark
// afterwards; removing a tag marks the entry before it deletes the row. So a
// missing row contradicts an entry without the mark, which is
// [store.ErrCorrupt]. A row without an entry was inserted by hand, and is
// trend.
//
// # A register that regressed
//
// No compare-and-set detects that the bucket itself is an older copy. So each
// process keeps the highest sequence of the stream that it has seen in replies,
// reads and polls. It polls the leader once a second, and before the first
// write after a start, a reconnect, an error or an unknown outcome. It stops
// granting, with a [*store.RegressionError], if
//
//   - a poll returns less than was seen before it was sent, fewer entries,
//     another identity of the stream, or no stream;
//   - the reply to a write has a sequence that is not above all that was seen
//     before it was sent;
//   - the leader has an entry that is lower than this process has read or
//     written it.
//
// Package internal/guard judges that, without any I/O. The register sends the
// requests, passes their replies to the guard, and does what it returns.
//
// The register repairs nothing. An administrator raises all tags: a [Mark] in
// the metadata of the stream stops all grants, [Register.Rewrite] applies a
// [Raise] to every entry, and [Mark.Finish] replaces the mark by a decision, with
// the lowest first ID of tags created from then on: a tag of such a name may
// have been lost. Loaders that see a decision for the first time resume if the
// register holds all that they have cached. A stream that was only unreachable,
// and holds all that was seen, needs no decision.
//
// A [Witness] keeps what was seen in a file, for the next start. claims.go asks
// other processes, and leaves proof. docs/proofs/register.md and evidence.md have
// the argument, docs/spec the models. poll.go reads the stream's state, watch.go
// polls and compares, store.go reads and writes entries, reserve.go and rows.go
// serve loaders, admin.go serves administrators, entry.go has the entries. rule.go
// says what a raise or an import makes of a tag, rewrite.go does that to all,
// mark.go marks and decides, raise.go opens a register to raise it.
package register
