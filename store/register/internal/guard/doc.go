// Package guard judges whether a loader may grant: which permit is valid, what a
// poll, a reply or an entry proves, when granting stops, and when it resumes. It
// does no I/O and has no goroutine, lock or clock: the register asks it, and
// does what it returns.
//
//	Begin                    the first poll of a process
//	Stamp, Polled            a poll and its reply
//	Permit, Sending, Wrote   a write and its reply
//	Epoch, Read              a read and its reply
//	Doubt                    a write with an unknown outcome
//	Compared                 the entries, before granting resumes
//	IsFresh, Renewed, Accept a decision, after that
//
// Invariants, which docs/spec/register.pml checks with a mutant for each:
//
//   - A write is sent only after a poll that returned at least as much as had
//     been seen when the poll was sent, that is recent, and after which nothing
//     happened that casts doubt on it.
//   - A write counts only if its reply is above all that was seen when it was
//     sent, came in time, and granting has not stopped, compared or accepted
//     since its permit.
//   - What was seen only rises, except by a decision. A contradiction stops
//     granting until a decision, or until it proves to be a replica's delay.
//   - A decision counts once, if it raised the floor above the one that was seen
//     and every entry above the one that was cached.
//
// The floor, the lowest first ID of new tags, is compared before the sequence,
// because each decision raises the floor and begins another history of
// sequences. A claim of another process about the register, which would have a
// floor, a sequence and perhaps a number of entries, is to be compared in that
// order, too: [Record.Assess] has it.
//
// record.go has what was seen and how a poll is compared with it, guard.go the
// states.
package guard
