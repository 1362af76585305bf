// Package ledger keeps a store in a database honest. It is a [store.Store] around another
// one, and writes to the bucket <prefix>_ledger in JetStream how far each tag was granted:
//
//	order   {"high":1001,"server":"ids@db1:3306"}
//
// where high is the end of everything that was ever granted, and server, for people only, where
// the store is of the loader that wrote this. The store proposes a range, and
// the ledger disposes: a database that lost commits in a failover, was restored from a backup,
// or is another one than it seems, proposes ranges that were granted before. They lie below
// high, and are not granted again.
//
// # A reservation
//
//  1. The store reserves [a, b).
//  2. {high, revision} is read. The read may be old, even a value that was remembered.
//  3. If high ≤ a, high is moved to b by compare-and-set: on the condition that the entry still
//     has that revision. A tag without an entry has the revision 0.
//  4. Only when the answer says that this was done is [a, b) granted.
//
// In this order: the ledger is not moved first. If it were, two loaders would burn more.
//
// What else can happen:
//
//	the revision was another one   Nothing was written. {high, revision} is read again, and
//	                               step 3 begins again with the question whether high ≤ a. If
//	                               so, keeping [a, b) is right.
//	no answer, any other error     The outcome is unknown. The range is burnt, even if a later
//	                               read shows high = b: another loader may have written that.
//	high > a                       The range is burnt. Either another loader was faster, and a
//	                               second reservation lies above; or high had been known before
//	                               the store was asked, and then the store has gone back. That is
//	                               logged as an error, counted, and the store is raised to high.
//
// # Why no ID is granted twice
//
// Each grant of [a, b) is one write that moves high from a value ≤ a to b. The writes to an
// entry are totally ordered, and each is conditional on the one before it. So high only rises,
// each granted range begins at or above the end of all ranges granted before it, and ranges
// are disjoint and ascend in the order of the writes. Nothing here relies on what the store
// returns, nor on how many stores there are. A read that is old makes the write fail. An answer
// that is lost makes a gap.
//
// A duplicate needs a ledger that went back as well. The order of the store's own ranges still
// holds if only the ledger did. If both did, the memory of the loaders narrows the hole, see
// package guard.
//
// # Which ledger it is
//
// An installation may be older than its ledger. The first loader fills it: every tag's high is
// raised to the first number that the store has not handed out. Loaders of versions before that
// may still be at work. Reservations go on meanwhile, each as above. Then the ledger is marked
// as complete: its identity, a random one in the entry "=id" of the bucket, is written to the
// installation's config under [ConfigKey].
//
//	no mark in the config          the ledger is being filled
//	mark, and =id is the same      the ledger is complete
//	mark, and no bucket, or
//	another =id, or none           the ledger is lost
//
// A tag without an entry is a new tag only in a ledger that is not lost. So before an entry is
// made for a tag, =id is compared. A ledger that is lost grants nothing, [LostError]. Neither
// does a single tag whose entry was deleted by hand, as the marker that this leaves shows.
// Somebody has to decide: to raise all tags of the store by more than may be missing, and to
// remove the mark, so that the ledger is filled again; or, for one tag, to raise that one.
//
// # Tags
//
//   - CreateTag refuses a first ID below high, with a store.BelowError.
//   - RemoveTag makes sure that high is at or above the first ID that was not handed out, and
//     keeps the entry. A table forgets a removed tag, the ledger does not.
//   - Raise moves the ledger first, and then the store. Once the ledger is moved, a range below
//     that was reserved but not granted is burnt, and a store that could not be raised is raised
//     by the next reservation. The other way around, such a range would still be granted; and if
//     the ledger were out of reach, nobody would know that the store had been raised when it
//     goes back. The tag is looked for first, because an entry for a mistyped name would bar that
//     name.
//
// # Best effort
//
// While JetStream cannot take the write, nothing is granted ([Require]). With [BestEffort] the
// range is granted without. That is logged once and counted. After a failure the ledger is left
// alone for some seconds, so that loads do not wait for it one by one. A ledger that is lost
// grants nothing in this mode either.
package ledger
