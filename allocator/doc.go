// Package allocator hands out the IDs of many tags from double buffers in memory, as
// Meituan's Leaf does, and says when it wants another segment.
//
// It knows neither NATS nor SQL and starts no goroutine. It asks for segments
// ([Config.Load]) and is given them ([Allocator.Grant]); it learns the time from
// [Config.Clock] and [Allocator.Tick].
//
// # A tag's buffers
//
// A tag has a current segment, from which IDs are taken, and ready segments that follow
// it. Usually there is one ready segment; there are more only while parked requests want
// more than is in memory.
//
//	 current              ready
//	┌──────┬───────────┐ ┌───────────────────┐
//	│ used │           │ │                   │
//	└──────┴───────────┘ └───────────────────┘
//	  ▲ 10 %: with nothing ready, a load is asked for
//
// A load is in one of three states:
//
//	idle     nothing is ready and the mark has been passed, or parked requests
//	         want more than is in memory → asked
//	asked    a grant above all earlier ones → idle; no grant for Config.ReAsk →
//	         asked again, with the same number; a refusal → refused
//	refused  Config.ReAsk later → idle; until then, requests that memory cannot
//	         answer get the store's error at once
//
// # Invariants
//
//  1. An ID is handed out once: by the compare-and-set that moves the current
//     segment's cursor over it.
//  2. A tag's IDs only go up. A grant is used only if it lies above everything
//     granted before in the life of the process, even if the tag was deleted and
//     created again in between; otherwise it is burnt. The current segment is
//     replaced only when its cursor stands at its end.
//  3. A request is answered exactly once: immediately, by the grant that satisfies
//     it, or with an error at its deadline. Parked requests hold no IDs, so one
//     that fails wastes none. They are answered first come, first served.
//  4. An answer from the current segment takes no lock, reads no clock and allocates
//     nothing, except for the one that crosses its mark.
//  5. Neither an Answer nor Config.Load is called while a lock is held. Both may
//     call the allocator.
//
// Two Takes that overlap in time may be answered in either order. A Take that begins
// after another has returned gets higher IDs.
package allocator
