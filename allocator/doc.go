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
//	asked    a grant above all earlier ones → idle; no grant for Config.ReAsk, then
//	         for twice that and so on, or the first request is parked → asked
//	         again, with the same number; a refusal → refused; a grant that
//	         proves that the store went back → asked again, see below
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
//  5. A grant is called Below only if the store has gone back.
//  6. Neither an Answer nor Config.Load is called while a lock is held. Both may
//     call the allocator.
//
// # A store that went back
//
// Each tag remembers its high: the end of the highest segment that was ever granted to the
// process, used or not. It outlives the tag, and each load says it ([Load.Above]).
//
// Only a grant that lies at or above high raises it. Such a grant also ends the load under way,
// whichever load it answers. So while load s is under way, high is what it was when s began.
// Every range that counts towards high had been reserved by then, and no loader heard of s
// before. A store gives higher ranges to later calls. So an answer to s lies at or above high,
// however often s is asked for and answered, and in whatever order the answers arrive. If one
// lies below, the store has forgotten what it had given away ([Below]).
//
//	a grant below high      what it says
//	of the load under way   the store went back
//	of any other load       nothing: it may have been overtaken by a later grant, or be the
//	                        second answer to a load that was asked for or delivered twice
//	without a number        nothing
//
// The first Below of a tag has a new load asked for at once, so that a loader learns of high and
// raises the store. The load gets a new number, so that more answers to the old one, which were
// reserved before the store was raised, count for nothing. Later ones wait for Config.ReAsk as
// usual: loaders of older versions do not raise the store, and would otherwise be asked as fast as
// they can answer. The episode ends when a grant of the tag is used.
//
// A store that does not know a tag which it has granted has forgotten, too, or the tag was
// deleted. A refusal does not tell which. So it is not believed, until the tag is removed
// ([Allocator.Update]) by those who have looked more than once.
//
// Two Takes that overlap in time may be answered in either order. A Take that begins
// after another has returned gets higher IDs.
package allocator
