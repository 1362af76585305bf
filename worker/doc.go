// Package worker is the NATS side of idworker: it answers requests for IDs from
// the buffers of an allocator, and keeps those filled.
//
// A process has one role or both:
//
//	worker   answers requests in the queue group, publishes load events, takes grants
//	loader   consumes load events, reserves segments in a store, sends grants
//
// # The way of a segment
//
//	  worker                    JetStream                loader            store
//	allocator wants one
//	  │ LoadEvent ──────────▶ IDS_LOAD ──────────▶ wait with others
//	  │                       (one per worker      of the same tag
//	  │                        and tag)                 │ Reserve ────────▶ │
//	  │                                                 │ ◀──── [first,end) │
//	  │ ◀──────────── Grant, by core NATS ──────────────┤
//	install                            ◀───────── ack ──┘
//
// What goes wrong on that way costs a gap in the numbers, and time, but never a
// duplicate, because only the store decides who owns a range:
//
//	event refused, one is queued already   tried again shortly, then see below
//	the stream cannot take the event       the process's own loader, or any loader
//	                                       by plain message, loads directly
//	loader dies before the grant           the event is redelivered; the range is lost
//	loader dies after the grant            the event is redelivered; one grant too
//	                                       many, burnt if there is no room for it
//	grant lost                             the allocator asks again after a second
//	store away                             nak with growing delay, until it is back
//
// # Start and stop
//
// A worker joins the queue group last, when grants can reach it and it knows the
// tags; and leaves it first. Stop then waits, in this order, until the requests
// that had been delivered are handled, until the parked ones are answered, until
// the loader has finished what it had begun, and until every goroutine has ended.
package worker
