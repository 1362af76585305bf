// Package allocator hands out the IDs of many tags from double buffers in memory, as
// Meituan's Leaf does, and reports when it needs another segment. It knows neither
// NATS nor SQL and starts no goroutine.
//
// A request goes to [Allocator.Take], and if that misses to [Allocator.TakeOrPark],
// which answers it, refuses it or parks it. [Config.Load] is called when a tag needs
// a segment. The sender of that load calls [Allocator.CurrentLoad] right before it
// sends, and passes the answer to [Allocator.Grant] or [Allocator.Refuse]. Time comes
// from [Config.Clock]; [Allocator.Tick] has to be called many times a second, and
// [Allocator.DropIdle] once a minute.
//
// A tag comes into memory with the first request for its name. It is unknown until its
// first grant, which carries its order and its step:
//
//	trend   buffers of IDs, filled ahead of need; a worker's IDs ascend
//	strict  no buffers; an ID is above all that any worker had answered before its
//	        request was sent; see strict.go
//
// A trend tag has a current segment, from which IDs are taken, and ready segments that
// follow it: usually one, more while a step grows.
//
//	 current              ready
//	┌──────┬───────────┐ ┌───────────────────┐
//	│ used │           │ │                   │
//	└──────┴───────────┘ └───────────────────┘
//	  ▲ checked 40 times; from 10 % on, with nothing ready, a load begins
//
// # Invariants
//
//  1. An ID is handed out once: by the compare-and-set that moves the current
//     segment's cursor over it, or by the grant of its strict load.
//  2. While a tag is in memory, its IDs only go up: a grant is used only if it lies
//     above all grants before. A grant for a tag that has left memory is used by no tag
//     of that name: an unknown one takes only the grant of its open load.
//  3. A request is answered exactly once: at once, by the grant that satisfies it, or
//     with an error at its deadline. Parked requests hold no IDs, so one that fails
//     wastes none. A trend tag answers them in the order in which they arrived.
//  4. An answer from the current segment takes no lock, reads no clock and allocates
//     nothing, except when it passes another fortieth of the segment.
//  5. A grant is [Below] only if the store went back; see grant.go.
//  6. Neither an [Answer] nor Config.Load is called while a lock is held. Both may
//     call the allocator.
//
// Two Takes that overlap in time may be answered in either order. A Take that begins
// after another has returned gets higher IDs.
//
// # Files
//
//	allocator.go  requests, and the frame of every change to a tag
//	table.go      how tags come into memory and leave it; refusals
//	tag.go        a tag's buffers and parked requests; segment.go: the current segment
//	load.go       when a load is due, requested again, or refused
//	grant.go      which grants are used
//	strict.go     loads of strict and unknown tags
//	step.go       the step policy; figures.go and use.go measure the rates
//	agenda.go     which tags Tick has to visit
package allocator
