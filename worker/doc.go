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
//	a request comes by another way      direct.go, directcall.go; over HTTP: package api
//	an overloaded worker withdraws      waitingline.go, shed.go
//	it is in a queue group, or not      membership.go; with which connection: place.go
//	a worker asks for a segment         asker.go; which and when: window.go
//	a loader receives the event         consume.go
//	a segment is reserved and granted   loader.go; whose turn it is: turns.go
//	an unknown tag is looked up         lookups.go
//	a store fails and works again       health.go
//	a worker installs the segment       grants.go
//	another installation is met         neighbourhood.go; its messages: foreign.go
//
// # The way of a segment
//
//	  worker                    JetStream                loader            store
//	allocator wants one
//	  │ waits for the window
//	  │ load event ─────────▶ IDS_LOAD ──────────▶ waits with others
//	  │                       (one per worker      of the same tag
//	  │                        and tag)            for its turn
//	  │                                ◀───────── ack ──┤
//	  │                                                 │ Reserve ────────▶ │
//	  │                                                 │ ◀──── [first,end) │
//	  │ ◀──────────── grant, by core NATS ──────────────┘
//	install
//
// Whatever goes wrong on that way costs time and a gap in the numbers, but never causes a
// duplicate, because only the store decides who owns a range:
//
//	event refused, one is queued already   tried again shortly; if it is asked for once more
//	                                       and requests wait, loaders are asked by plain message
//	the stream does not store the event,   the process's own loader loads directly, or
//	  as when it is away or full           any loader, asked by plain message
//	loader dies before the turn            the event is redelivered after the ack wait
//	loader dies between turn and grant     the allocator asks again; the range is lost
//	grant lost                             the same: after 1, 2, 4, 8, then every 16 s;
//	                                       an eighth of that for strict and unknown tags
//	store away                             loaders leave the events in the stream, see below
//	one tag cannot be loaded               its loader tries again, at growing intervals
//	event waits for longer than the ack    not served: the stream has given it to another
//	  wait                                 loader
//
// # What is bounded, and in which order things are done
//
// A tag that has no IDs is urgent; 100,000 of them are a queue. So nothing on the way starts
// just because it is wanted:
//
//	window   A worker has at most 128 loads open, that is, asked for less than a second
//	         ago and not answered. Each answer makes room for more. If nobody answers, it
//	         is 5, so an outage costs 5 load events a second, however many tags there are.
//	turns    A loader has Config.Reservations under way. The 3 s of a reservation begin
//	         with its turn. It takes from the stream what it can soon serve.
//	health   A store is up or failing. While it fails, a call begins every 750 ms, each
//	         for another tag, to find out whether it is back. All else waits.
//
// Worker and loader put first what is needed first: parked requests, then the shortest runway.
// More exactly, a load that comes at a time t has the place t if requests are parked, and t plus
// half of its runway if not. With parked requests strictly first, a storm of cold tags would
// keep those that are merely busy waiting until they are empty as well.
//
// Waiting happens in the worker, not behind it. There a load costs nothing, is up to date when
// it is asked for, and is forgotten if it is no longer wanted; and what a dead worker or loader
// leaves behind is a window's worth.
//
// An event is acked when its turn begins. Until then the stream knows of it, so the worker's
// second event is refused instead of being served by another loader as well, and if the loader
// dies or stops, another one gets it. Acked at receipt, it would be lost with the loader, and
// two loaders would reserve twice for a tag that is asked for again. Acked after the grant, the
// ack wait would have to cover the reservation too, and the worker's next event would be
// refused. A loader whose store fails takes no events, but for one to probe with; those of which
// it cannot make use are found by loaders whose store is up.
//
// Whether the store fails or the tag does is told apart by the evidence. Three failures in a
// row, without a success in between, are the store's, and so is one that took a second in which
// none succeeded. A tag that fails twice, while the store works for
// others after each, is a suspect: its failures count for nothing until it works, it waits for up to 5 s
// between two calls, and all such tags together have an eighth of the turns. An entry that
// cannot be read says that the store works.
//
// In a process with both roles, loads with parked requests go to the process's own loader, if
// its store is up. With a store in JetStream that syncs every write, the way through the stream
// costs as many writes as the reservation itself, and the server would write everything twice in
// a cold start, when that is what takes the time.
//
// A store that has gone back is another matter, since it gives a range to a second owner. A
// worker notices if it was an owner before: the grant lies below an earlier one, and is
// burnt; see package allocator. Loaders compare with the register, see store/register.
//
// # Tags that a worker does not know, and strict tags
//
// A worker has no list of tags. A request for a tag that is not in memory is parked, and its
// load goes straight to a loader: the process's own, else any, by a plain message. The loader
// looks the tag up in the store, or a template creates it, or the answer is a refusal, which
// the allocator remembers for a second. Step and order of a tag come with each grant.
//
//	window   Unknown tags have an eighth of what a worker may have open.
//	lookups  A loader has 1000 lookups a second that find no tag. After that, unknown
//	         names get 429 until there may be one again.
//
// A strict tag keeps nothing in memory. Its requests are parked, one load asks for exactly
// those that are parked when it is sent, and its grant serves only them. A loader reserves
// for loads that have arrived, one write for all of them. docs/proofs/strict.md has the proof.
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
// last, when grants can reach it, and leaves it first. It then waits, in this order, until the
// requests that had been delivered are handled, until the worker ID is released, until the
// parked requests are answered, and until its goroutines have ended. Then the loading half
// serves what waits, for 3 s at most and if its store is up, hands the rest back to the
// stream, and ends its goroutines.
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
