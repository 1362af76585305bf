// Package guard is a loader's memory. It is a [store.Store] around the one that a loader uses,
// and remembers for each tag the floor: the highest end of everything that this loader knows to
// have been given away. It knows from
//
//   - its own reservations,
//   - [Guard.Learn]: workers say in each load event how far they were granted,
//   - the register, see [store.Register], which it watches.
//
// Nothing below the floor is granted. The store is asked, and its range is compared with the
// floor as it is known after the answer:
//
//	first ≥ floor                    granted
//	first < floor before the call    the store went back, for a range that was given away
//	                                 before the call is not returned by a store that keeps its
//	                                 promise. Logged once per tag and episode, counted; the store
//	                                 is raised to the floor and asked again.
//	first < floor after the call     another loader was faster, or nobody knows. The range is
//	                                 burnt and the store asked again.
//
// # A register that went back
//
// The ledger protects against a store that goes back. Nothing in JetStream protects against a
// register that does: a bucket that was restored, or deleted and made again. Only a memory
// outside of it can tell. So while a register is watched, each of these makes the loader open
// the watch again and compare all marks with what was seen:
//
//   - its latest revision is lower than one that was seen,
//   - it was made at another time,
//   - the watch shows a mark with a higher revision and a lower end than the one before.
//
// None of them is proof. The watch may come from a replica that lags behind, and the time at
// which a stream was made is known to differ between servers. Proof is
//
//   - a write of this process whose revision is not above all those that were seen before it,
//   - a latest revision that is lower than one that was seen, twice within a second,
//   - what the leader holds for a tag, asked twice: an end below one that was seen in the register.
//
// From then on nothing is granted; the range behind the write that was the proof is burnt, too.
// Every tag whose mark is lower than seen is raised to its floor, in the register and in the
// store. This is logged and counted once, and tried again until it succeeds. Then the loader
// waits for another three seconds: every loader that lives notices within that time, stops as
// well, and raises what it knows. A range that was granted just before the register went back
// may be known to nobody else.
//
// The latest revision and the time are asked for every second, because a watch hangs on a
// stream that was restored to an earlier state: it waits for revisions that are yet to come.
//
// # What it cannot do
//
// A memory is as long as its process. If store and register both go back, IDs are safe if one
// loader lives that had watched the register (and none starts in the seconds before that one has
// raised it, because it would remember nothing), or for a worker's own ranges, if it says how far it
// was granted. If all loaders are started again in between, another worker may be granted what
// was given away. A witness file outside of the data closes that hole.
//
// In the other direction the register's bucket may have lost a write that no loader has seen yet
// when it went back; that needs the process that made it to die in the same moment.
package guard
