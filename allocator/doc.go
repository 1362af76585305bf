// Package allocator hands out the IDs of many tags from double buffers in memory, as
// Meituan's Leaf does, and says when it wants another segment.
//
// It knows neither NATS nor SQL and starts no goroutine. It asks for segments
// ([Config.Load]) and is given them ([Allocator.Grant]); it learns the time from
// [Config.Clock] and [Allocator.Tick].
//
// # A million tags
//
// A tag that is known and that nobody has asked for is an entry in a hash table: about 100 bytes
// besides its name. Its buffers, described below, are made by the first request or grant, and
// the figures are those of tags with buffers only.
//
// The table is read without a lock and without an allocation, and a change of one tag costs the
// same however many there are. See table.go.
//
// # A tag's buffers
//
// A tag has a current segment, from which IDs are taken, and ready segments that follow
// it. Usually there is one ready segment. There are more while a step grows, because small
// segments are still there when large ones come, and while parked requests want more than is in
// memory.
//
//	 current              ready
//	┌──────┬───────────┐ ┌───────────────────┐
//	│ used │           │ │                   │
//	└──────┴───────────┘ └───────────────────┘
//	  ▲ looked at 40 times; from 10 % on, with nothing ready, a load is asked for
//
// A load is in one of three states:
//
//	idle     nothing is ready and a tenth is used, or memory does not last, or parked
//	         requests want more than is in memory → asked
//	asked    a grant above all earlier ones → idle; no grant for Config.ReAsk, then
//	         for twice that and so on, or the first request is parked → asked
//	         again, with the same number; a refusal → refused; a grant that
//	         proves that the store went back → asked again, see below
//	refused  Config.ReAsk later → idle; until then, requests that memory cannot
//	         answer get the store's error at once. While memory can answer them the
//	         time doubles with each refusal in a row, up to a minute
//
// # How long memory lasts
//
// Memory should last for 15 minutes or more, from the first minute of a rate on, and for few
// loads. Whenever the cursor has passed another fortieth of its segment, the tag is looked at: how
// many IDs were handed out in the latest time, and does what is left last for 15 minutes at that
// rate? If not, the next load takes what lasts for 20, whether a segment is ready or not.
//
// The rate is that of the faster of two windows. Both begin at earlier looks, the shorter one less
// than 15 seconds ago if the tag is busy, the longer one more than that. So after a surge, one of
// them soon has nothing but the new rate in it. A rate that is taken over less than 15 seconds
// counts as if nothing had been handed out in the rest of them, when it is judged whether memory
// lasts. Fewer than 20 IDs tell no rate.
//
// What was seen for a moment may have been a burst. So a step is at most 16 times the one before,
// and is judged only when a fortieth of it was used. That bounds what a burst reserves to some
// hundred times its IDs; and still a tag that begins with 1,000 IDs a segment needs six loads to
// have what 100,000 a second take in 20 minutes.
//
// Where the rate cannot be told, and for steps that are too long, Leaf's rule holds: a step that
// lasts for less than 15 minutes is doubled, one that lasts for 30 or more is halved. All this is
// bounded by Config.MaxStep: where that does not last for 15 minutes, memory has 0.9 to 1.9 times
// MaxStep.
//
// # Tags on first use
//
// Tags that Update has not added may come into being when they are asked for, and are forgotten when
// nobody asks for them any more. Such a tag costs less than 300 bytes at rest. See firstuse.go, also for
// what is lost with the high of a tag that is forgotten.
//
// # Invariants
//
//  1. An ID is handed out once: by the compare-and-set that moves the current
//     segment's cursor over it.
//  2. A tag's IDs only go up. A grant is used only if it lies above everything
//     granted before in the life of the process, even if the tag was deleted and
//     created again, or a term has begun, in between; otherwise it is burnt. A tag
//     on first use that was forgotten takes only what was asked for after that. The current segment
//     is replaced only when its cursor stands at its end.
//  3. A request is answered exactly once: immediately, by the grant that satisfies
//     it, or with an error at its deadline. Parked requests hold no IDs, so one
//     that fails wastes none. They are answered in the order of their deadlines, which is that in which they came
//     to the first worker.
//  4. An answer from the current segment takes no lock, reads no clock and allocates
//     nothing, except for those that pass another fortieth of it.
//  5. A grant is called Below only if the store has gone back.
//  6. Neither an Answer nor Config.Load is called while a lock is held. Both may
//     call the allocator.
//  7. All ranges of an answer are of the term that was asked for, and were asked for and
//     reserved in it.
//
// # A store that went back
//
// Each tag remembers its high: the end of the highest segment that was ever granted to the
// process, used or not. It outlives the tag.
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
// The first Below of a tag has a new load asked for at once, with a new number: another loader may
// grant what is higher. Later ones wait for Config.ReAsk as usual. The episode ends when a grant of
// the tag is used.
//
// A store that does not know a tag which it has granted has forgotten, too, or the tag was
// deleted. A refusal does not tell which. So it is not believed, until the tag is removed
// ([Allocator.Update]) by those who have looked more than once.
//
// # Terms
//
// The IDs of a tag may be of terms: periods, each with a number, in which this process is the only one to
// answer for the tag. Which term it is, the caller knows ([Allocator.TakeOrParkIn]); a tag is of the term
// that was asked for latest, and whatever is in memory or being loaded is of that term too. It begins with
// nothing: memory is dropped, the load under way is forgotten, and parked requests get [ErrTerm].
//
// Between two terms of this process, another one may have answered. What it answered was reserved
// after this process's earlier term had begun, but may have been reserved before or after what this process had
// asked for in it. So a grant counts only if its load was asked for in the present term. Loads are
// numbered, and since is the number at which the term began: a grant of a load up to there is as good as lost. It
// does not move high either, so that what is said below about a store that went back holds without
// change. High outlives a term, as it does a tag, and it never keeps out what should be used: what is
// reserved later lies above it, and also above what other processes have got.
//
// A tag for which [Config.Ordered] is true has no IDs without a term: neither a request nor a grant
// without one gets through. The same function is asked for both with the tag's lock held. So once it says
// so, and [Allocator.EndTerm] has been called, nothing is left of the time before.
//
// For tags without terms all this costs a comparison of two numbers that are in the same cache line
// as the segment.
//
// Two Takes that overlap in time may be answered in either order. A Take that begins
// after another has returned gets higher IDs.
package allocator
