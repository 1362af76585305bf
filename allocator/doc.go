// Package allocator hands out the IDs of many tags from double buffers in
// memory, as Meituan's Leaf does it, and says when it wants another segment.
//
// It knows neither NATS nor SQL and starts no goroutine. Segments are brought to
// it ([Allocator.Grant]) after it asked for them ([Config.Load]), and time is
// told to it ([Config.Clock], [Allocator.Tick]).
//
// # A tag's buffers
//
// A tag has a current segment, from which IDs are taken, and ready segments that
// follow it: one as a rule, more only while a parked batch is larger than what is
// in memory.
//
//	 current              ready
//	┌──────┬───────────┐ ┌───────────────────┐
//	│ used │           │ │                   │
//	└──────┴───────────┘ └───────────────────┘
//	  ▲ 10 %: with nothing ready, a load is asked for
//
// A load is in one of three states:
//
//	idle     nothing is ready and the mark is passed, or parked requests want
//	         more than is in memory → asked
//	asked    a grant that fits → idle; no grant for Config.ReAsk → asked again,
//	         same number; the store refused → refused
//	refused  Config.ReAsk later → idle; until then requests that memory cannot
//	         answer get the store's error at once
//
// # Invariants
//
//  1. An ID leaves once: by the compare-and-set that moves the current segment's
//     cursor over it.
//  2. A tag's IDs only go up. A grant is used only if it lies above everything
//     granted before, in the life of the process, even if the tag was deleted
//     and made anew in between; otherwise it is burnt. The current segment is
//     replaced only when its cursor stands at its end.
//  3. A request is answered once: at once, by the grant that satisfies it, or
//     with an error at its deadline. Parked requests hold no IDs, so that one
//     that fails wastes none; they are answered first come, first served.
//  4. The answer from memory takes no lock, reads no clock and allocates nothing.
//  5. Nothing is called while a lock is held: neither answers nor Config.Load.
//
// Two Takes that overlap in time may be answered in either order; a Take that
// begins after another has returned gets higher IDs.
package allocator
