// Package snowflake makes 64-bit IDs that sort by time, without asking anybody:
// time, the ID of the worker that made them, and a sequence, side by side in one
// positive int64.
//
//	g, err := snowflake.New(snowflake.Settings{
//		Layout: snowflake.Default(),
//		Worker: 7,
//		Fence:  snowflake.Fence{Hi: snowflake.Forever},
//	})
//	id, err := g.Next()
//
// A [Layout] says which bits mean what, an [ID] can be written and read in
// decimal, base62 and JSON, and a [Generator] makes IDs for one worker ID. The
// package knows neither NATS nor a database, nor where worker IDs come from
// (snowflake/lease leases them in a JetStream bucket).
//
// # What a Generator promises
//
// A timestamp t is the number of whole time units since the layout's epoch. Let
// now be the timestamp that the [Clock] gives, which is read in every call. Then,
// for each ID:
//
//  1. Unique and ascending. The IDs of one Generator rise strictly, whatever the
//     clock does. It never goes back below a timestamp that it has used.
//  2. Fenced. Lo ≤ t < Hi, for the Lo it was made with and the highest Hi it was
//     given. Generators of one worker ID whose fences do not overlap therefore
//     never issue the same ID. This relies neither on clocks nor on leases, nor on
//     the absence of pauses: one that is stopped for an hour and then resumed
//     finds that its time is over.
//  3. Revoked is revoked. Once Revoke has returned, nothing is issued any more,
//     not even by a Next that was under way. The timestamp that it returns is
//     final: a successor may start right above it.
//  4. Near the clock. now ≤ t ≤ now + MaxAhead. A unit whose sequence numbers are
//     used up borrows from the next one. Past the limit the answer is [ErrAhead].
//     The same goes for a clock that is set back: IDs continue where they were, as
//     long as that is not too far ahead of the new time. How far it may be from
//     real time is said at [SystemClock].
//  5. In range. 1 ≤ ID ≤ 2^63−1. At the end of the layout's lifetime the answer is
//     [ErrExhausted], never a negative or wrapped number.
//
// # Why they hold
//
// The only mutable state that decides about IDs is one word, the position of the
// next ID: timestamp and sequence number packed together, so that the number
// after the last of a unit is the first of the next unit and borrowing is plain
// addition. A call reads the word, works out first ≥ position and first + n, checks
// them against the limits, and swaps the word from position to first + n. If the
// swap fails, no ID was used and the call starts over.
//
// The word only rises, and what a swap takes lies between its old and its new
// value: hence 1. The upper fence is read before the swap and only rises, so a
// stale one is merely too strict: hence 2. Revoke sets the sign bit of the same
// word, which makes every swap that is under way fail: hence 3. A clock reading
// may be stale by the time of the swap, which again can only be too strict; so
// ErrAhead is returned only after the clock was read again.
//
// # Sequence numbers
//
// When the clock has moved to a new unit, the first sequence number in it is
// random in its low bits. Otherwise, at low rates, every ID would end in the same
// bits, and partitions chosen by id % 16 would be very uneven. A unit entered by
// borrowing is used from 0: under full load no number is left out.
// (In Sonyflake's layout the lowest bits are the worker ID, and stay as they are.)
package snowflake
