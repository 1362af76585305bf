// Package snowflake makes 64-bit IDs that sort by time, without coordination:
// time, the ID of the worker that made them, and a sequence, side by side in
// a positive int64.
//
//	g, err := snowflake.New(snowflake.Settings{
//		Layout: snowflake.Default(),
//		Worker: 7,
//		Fence:  snowflake.Fence{Hi: snowflake.Forever},
//	})
//	id, err := g.Next()
//
// A [Layout] defines the bits, an [ID] can be written and read in decimal,
// base62 and JSON, and a [Generator] makes IDs for one worker ID. The package
// depends on neither NATS nor a database. snowflake/lease leases worker IDs in
// a JetStream bucket.
//
// # What a Generator promises
//
// A timestamp t is the number of whole time units since the layout's epoch. Let
// now be the timestamp of the [Clock], which every call reads. For each ID:
//
//  1. Unique and ascending. The IDs of a Generator rise strictly, even if the
//     clock steps back. It never returns to an earlier timestamp.
//  2. Fenced. Lo ≤ t < Hi, for the Lo of New and the highest Hi it was given.
//     So Generators of a worker ID with disjoint fences never issue the same
//     ID. This needs no right clock, no lease, and no absence of pauses: a
//     Generator that resumes after an hour finds that its time is over.
//  3. Revoked is revoked. Once Revoke has returned, nothing is issued any more,
//     not even by a Next under way. The timestamp that it returns is final: a
//     successor may start right above it.
//  4. Near the clock. now ≤ t ≤ now + MaxAhead. A unit without sequence numbers
//     left borrows from the next. Past the limit the error is [ErrAhead], as
//     for a clock that was set back too far. [SystemClock] describes its own
//     error.
//  5. In range. 1 ≤ ID ≤ 2^63−1. At the end of the layout's lifetime the error
//     is [ErrExhausted]; no number is negative or wrapped.
//
// # Why they hold
//
// A single word of mutable state decides about IDs, the position of the next:
// timestamp and sequence number packed together, so that borrowing is plain
// addition. A call reads the word, computes first ≥ position and first + n,
// checks both against the limits, and swaps the word from position to
// first + n. If the swap fails, no ID was used and the call starts over.
//
// The word only rises, and a swap takes the positions between its old and its
// new value: hence 1. The upper fence is read before the swap, and no reading
// exceeds the highest Hi given: hence 2. Revoke sets the sign bit of the same
// word, which fails every swap under way: hence 3. A stale clock reading is
// only too strict, so ErrAhead is returned after another reading: hence 4.
//
// In a new unit, the first sequence number is random in its low bits.
// Otherwise, at low rates, every ID would end in the same bits, and partitions
// chosen by id % 16 would be uneven. A unit entered by borrowing starts at 0:
// under full load no number is left out. (In Sonyflake's layout the lowest bits
// are the worker ID, and stay as they are.)
package snowflake
