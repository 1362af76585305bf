// Package worker is the NATS side of idworker: it answers requests for IDs from the
// buffers of an allocator, and keeps those buffers filled.
//
// A process has one role or both, and a half for each role that it has:
//
//	worker   the answering half answers requests in the queue group, publishes load
//	         events and installs the segments that are granted
//	loader   the loading half consumes load events, reserves segments in a store and
//	         sends grants
//
// # Where things happen
//
//	a process starts and stops          start.go, its halves in answering.go and loading.go
//	a request comes in, is replied to   frame.go
//	IDs of a tag are answered           segmentendpoint.go
//	snowflake IDs are answered          snowflakeendpoint.go; the worker ID: snowflakes.go
//	an overloaded worker withdraws      waitingline.go, shed.go
//	it is in a queue group, or not      membership.go; with which connection: place.go
//	a worker asks for a segment         asker.go
//	a loader receives the event         consume.go
//	a segment is reserved and granted   loader.go
//	a worker installs the segment       grants.go
//	tags get from store to workers      mirror.go, directory.go
//	a missing tag is believed removed   absences.go
//	another installation is met         neighbourhood.go; its messages: foreign.go
//
// # The way of a segment
//
//	  worker                    JetStream                loader            store
//	allocator wants one
//	  │ load event ─────────▶ IDS_LOAD ──────────▶ waits with others
//	  │                       (one per worker      of the same tag
//	  │                        and tag)                 │ Reserve ────────▶ │
//	  │                                                 │ ◀──── [first,end) │
//	  │ ◀──────────── grant, by core NATS ──────────────┤
//	install                            ◀───────── ack ──┘
//
// Whatever goes wrong on that way costs time and a gap in the numbers, but never causes a
// duplicate, because only the store decides who owns a range:
//
//	event refused, one is queued already   tried again shortly, then see the next line
//	the stream cannot accept the event     the process's own loader loads directly, or
//	                                       any loader, asked by plain message
//	loader dies before the grant           the event is redelivered; the range is lost
//	loader dies after the grant            the event is redelivered; the grant comes
//	                                       twice and is burnt if there is no room for it
//	grant lost                             the allocator asks again after a second
//	store away                             nak with growing delay, until it is back
//	store does not list a tag any more     the tag stays until that is confirmed
//
// A store that has gone back is another matter, since it gives a range to a second owner. A
// worker notices if it was an owner before: the grant lies below an earlier one, and is
// burnt. The next load event says how far the worker was granted; see package allocator.
//
// # Another installation
//
// A worker's store, and what keeps its worker ID its own, are those of its installation, that
// is, of one set of buckets. If subjects reach further than buckets, as over a leaf node link,
// another installation may be there that counts the same numbers. Two things keep it out.
// Load events and grants name their installation, and those of another one are dropped, so no
// worker uses what another installation's store gave. And only one of the two stays in the
// queue groups: package internal/neighbours says which, and how the other one learns of it.
//
// # Start and stop
//
// Nothing starts before it was made sure that no other installation is there. The loading
// half starts before the answering half and stops after it. The answering half joins the queue group
// last, when grants can reach it and it knows the tags, and leaves it first. It then waits,
// in this order, until the requests that had been delivered are handled, until the worker
// ID is released, until the parked requests are answered (by what the loading half still
// loads), and until its goroutines have ended. Then the loading half finishes the loads
// that have begun, and ends its goroutines.
//
// # Queue groups
//
// What a [membership] wants and what is the case differ for a while: entering needs a
// connection, which may take time or fail, and is tried again and again; leaving goes on until
// what was delivered is handled. Three things hold:
//
//   - The server has no member that answers nothing, whenever connections are lost. See [place].
//   - A member handles nothing any more when its left channel is closed. Whoever enters
//     instead of it, after an overload, waits for that, so that IDs of a tag are in order.
//   - What is entered with is what the latest join said, even if an older one is under way.
//
// A half whose start fails stops by itself what it had started, so that [Start] leaves
// nothing behind.
package worker
