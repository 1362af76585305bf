// Package messages is idworker's wire contract: all that a caller needs to
// request IDs over NATS.
//
// A caller sends a request to a subject and receives text:
//
//	request  ids.segment.order  ""     → "1001"
//	request  ids.segment.order  "100"  → "1002-1101"
//
// An empty request is for one ID, an ASCII decimal n for n of them. The reply
// has one line per contiguous range, in ascending order: "first-last", both
// ends included, or a bare number for a single ID. An error is an empty reply
// with the headers of the NATS services API, Nats-Service-Error-Code and
// Nats-Service-Error; [Code] lists the codes. Values of an error that programs
// use have headers of their own, which become fields of [Error].
//
// The text form is deliberate: a shell and every language can use it.
// JavaScript callers have to parse IDs as BigInt or keep them as strings.
//
// In Go, [Client] requests IDs, and retries while no worker answers;
// [Prefetcher] buffers IDs before they are needed. Both rely on one invariant:
// issued IDs are never issued again. So a late reply is a gap, and a retry is
// safe. A reply counts only as a whole, and only for the call that sent the
// request.
package messages
