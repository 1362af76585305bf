// Package guard judges whether a loader may grant: which permit is valid, what a
// poll, a reply or an entry proves, when granting stops, and when it resumes. It
// does no I/O and has no goroutine, lock or clock: the register asks it, and
// does what it returns.
//
//	Begin                     the first poll of a process
//	Stamp, Polled             a poll and its reply
//	Permit, Sending, Wrote    a write and its reply
//	Epoch, Read               a read and its reply
//	Doubt                     a write with an unknown outcome
//	Compared                  the entries, before granting resumes
//	IsFresh, Renewed, Accept  a decision, after that
//	AskFirst, Unasked, Asked  a question to other processes, which precedes a write
//	Hear, Claims              what they claim, and what this process claims
//	Left, Proof               what another process has left, and what this one leaves
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
// Claims of other processes are hearsay, which docs/spec/evidence.pml checks, and
// docs/proofs/evidence.md argues:
//
//   - If other processes are to be asked, nothing is written until they had the
//     time to answer, and until a poll that was sent after that.
//   - A claim is compared only with polls and replies that were sent after it was
//     heard. If the poll is below the claim, or the reply is not above it, granting
//     stops until a decision.
//   - A claim is never part of the record, the witness or a proof.
//   - A proof is left only of what this process has seen itself, and holds only
//     for one register under one decision.
//
// The floor, the lowest first ID of new tags, is compared before the sequence,
// because each decision raises the floor and begins another history of
// sequences. The record ([Record.Assess]) and claims are both compared in this
// order.
//
// record.go has what was seen and how a poll is compared with it, guard.go the
// states, and hearsay.go claims and proofs.
package guard
