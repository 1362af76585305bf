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
//	the owner of its tag answers that   directinbox.go
//	an overloaded worker withdraws      waitingline.go, shed.go
//	it is in a queue group, or not      membership.go; with which connection: place.go
//	a worker asks for a segment         asker.go; which and when: window.go
//	a loader receives the event         consume.go
//	a segment is reserved and granted   loader.go; whose turn it is: turns.go
//	a tag of a template is made         firstuse.go; by the loader: firstuses.go
//	a store fails and works again       health.go
//	a worker installs the segment       grants.go
//	tags get from store to workers      mirror.go, directory.go
//	a missing tag is believed removed   absences.go
//	another installation is met         neighbourhood.go; its messages: foreign.go
//	the rules of tags are followed      rules.go
//	a strict tag is answered            strict.go; passed on: forward.go, and received forwardinbox.go
//	the owner turns out not to be there ontheway.go
//	it has no owner for the moment      ownerless.go
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
//	grant lost                             the same: after 1, 2, 4, 8, then every 16 s
//	store away                             loaders leave the events in the stream, see below
//	one tag cannot be loaded               its loader tries again, at growing intervals
//	event waits for longer than the ack    not served: the stream has given it to another
//	  wait                                 loader
//	store does not list a tag any more     the tag stays until that is confirmed
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
//	         for another tag, to find out whether it is back. All else waits, the mirror's
//	         listing too.
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
// # Strict tags
//
// The IDs of a strict tag go up for all callers: each is higher than all whose reply had come before its
// request was sent. So one worker at a time answers, the owner of the tag's slot, and its terms as
// owner have epochs that only rise (package internal/ownership). A request comes to any worker:
//
//	request ──▶ any worker ── is it the owner? ── yes ─▶ take ─▶ look ─▶ reply
//	               │  no                                  ▲        │ term or time is over: burnt,
//	               │                                      │        ▼ and all over again
//	               ├─ owner known ─▶ ids.strict.<owner>.<tag> ─▶ owner
//	               └─ unknown ─────▶ parked until it is known, or the deadline
//
// Three things make the order, and each is necessary:
//
//   - The owner first takes an ID that was reserved in its present term, and then looks, with the ID in
//     hand, whether the term and its time last still ([ownership.Ownership.Valid]). Then it replies.
//     Whoever looks first may be paused before it takes.
//   - A term begins with nothing in memory, and what was asked for before it is burnt. See package
//     allocator, whose buffers strict tags share with all others: all that it knows is the number of the
//     term. The number is the process's own. An epoch would do, but for a bucket that is made again.
//   - A segment is reserved after the write that began the term is known to be done. So it lies above all
//     that any owner answered before: the register sees to that, whichever store it is.
//
// It is no matter how long a reply takes after the look, nor that a term ends meanwhile: who has not
// got the reply yet cannot have sent a request after it.
//
// A message that is passed on says in its body how often it was, how much of its time is left, and
// who gets the answer. It has no headers: those of the caller would be carried out with the worker's rights, and the one
// that workers read was read before. The answer goes from the owner straight to the caller. The subject for the
// answer cannot be the message's own reply subject: for a caller in another account the server has
// made that subject, and takes no message that names it. So that one is free to find out that the owner
// is not there: the server says so at once, and the request is parked instead of lost. It is remembered until a ping that
// was sent after it is answered, by when the server has said what it had to say.
//
// It cannot circle: it is passed on [maxHops] times at most, at once the first two times, and then only
// after a rest. Its deadline is that of the first worker. If nobody has answered by then, whoever has it
// says 503, and why. A process that is paused, or dies with the request in its hands, says nothing, then as with any
// other request: who has passed it on cannot know whether it was answered. The caller asks again after a timeout.
//
// A process that stops owns nothing any more, and soon does not know who does. What still comes it passes on to
// the owner that it knew last, or to any process that had a lease, and to the next one if that is not there.
//
// An ordinary tag pays nothing for this. Its segments are of no term, so a take that succeeds asks
// nobody; only one that does not looks the rules up.
//
// # A tag becomes strict
//
// Acting on a rule is dropping what the tag has in memory, after which nothing of it is taken or installed
// without a term. The revision acted upon stands in the process's lease. Who makes a tag strict waits until
// all have acted, and then once more: a worker that was late may have been granted IDs above those that the owner has
// in memory already, and the second time the owner drops them. This is so whichever rule makes it strict, its own or
// a template that is made, changed or removed. A worker has read the rules and has a lease
// before it joins the queue group, so that who answers without a lease is of an older version.
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
// ID is released, until the slots of strict tags are handed over, until the parked requests are
// answered (by what the loading half still loads, or by the new owner), and until its goroutines have ended. Then the loading half serves what waits, for
// 3 s at most and if its store is up, hands the rest back to the stream, and ends its goroutines.
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
