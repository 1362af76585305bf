// Package allocator hands out the IDs of many tags from double buffers in
// memory, as Meituan's Leaf does, and reports when it needs another segment. It
// depends on neither NATS nor SQL, starts no goroutine, and calls nothing but
// its clock.
//
// A request goes to [Allocator.Take], and if that misses to
// [Allocator.TakeOrPark], which answers, refuses or parks it. A single
// goroutine receives from [Allocator.Ready], and after every event it sends the
// replies that [Allocator.Replies] returns, and the loads that [Allocator.Send]
// returns, one at a time. [Allocator.Answer] takes the fate of a load. Time
// comes from Config.Clock; [Allocator.Tick] has to be called many times a
// second, and [Allocator.DropIdle] once a minute.
//
// The first request for a name creates its tag here. It is unknown until a grant
// brings its order and its step, and again after [Allocator.Learn]:
//
//	trend   a buffer of IDs, filled ahead of need; a worker's IDs ascend
//	strict  no buffer; an ID is above all that any worker had answered before
//	        its request was sent; see strict.go
//
// A trend tag has a current segment, which serves IDs, and ready segments that
// follow it: one or none, or two while a burst lasts.
//
//	 current              ready
//	┌──────┬───────────┐ ┌───────────────────┐
//	│ used │           │ │                   │
//	└──────┴───────────┘ └───────────────────┘
//	  ▲ checked 40 times: a load begins when all segments together have less
//	    than half of the tag's level, which step.go chooses
//
// # Invariants
//
//  1. An ID is handed out once: by the compare-and-set that moves the current
//     segment's cursor over it, or by the grant of its strict load.
//  2. Until a tag is dropped, its IDs only ascend: a grant is used only if it
//     lies above all earlier grants. A tag never uses a grant for a dropped tag
//     of the same name: an unknown tag takes only the grant of its open load.
//  3. A request is answered exactly once, unless it is withdrawn: immediately,
//     by the grant that satisfies it, or with an error. Parked requests hold no
//     IDs, so a failure wastes none. A trend tag answers them in order.
//  4. Take takes no lock, reads no clock and allocates nothing, except when it
//     passes another fortieth of the segment or of the buffer.
//  5. A grant is [Below] only if the store regressed; see grant in load.go.
//  6. All segments are from after the latest decision that was learned; line.go.
//
// Of two Takes that overlap in time, either may get the higher IDs.
//
// # Files
//
//	allocator.go  the tags held, parked requests, replies; the frame of every
//	              change to a tag
//	tag.go        a tag's buffer: Take, segments, parked requests
//	load.go       a load: when it begins, is sent, sent again, answered, and
//	              which grants are used
//	line.go       what becomes of segments once an operator has decided
//	strict.go     the requests of a strict or unknown tag's load
//	sendqueue.go  which load is sent next, and how many at a time
//	step.go       the level of a buffer, and the step of a load
//	figures.go    the rates, and figures of each tag
package allocator
