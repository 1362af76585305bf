// Package messages is idworker's wire contract: all that a caller needs to ask for IDs
// over NATS.
//
// A caller sends a request to a subject and gets text back:
//
//	request  ids.segment.order  ""     → "1001"
//	request  ids.segment.order  "100"  → "1002-1101"
//
// An empty request asks for one ID, an ASCII decimal n asks for n of them. The reply has
// one line per contiguous range, in ascending order: "first-last", both ends included,
// or a bare number for a range of one. An error is an empty reply with the headers of
// the NATS services API, Nats-Service-Error-Code and Nats-Service-Error; the codes are
// listed at [Code].
//
// The text form is deliberate: a shell and every language can use it. JavaScript callers
// have to parse IDs as BigInt or keep them as strings.
//
// In Go, [Client] asks, and asks again while nobody can answer; [Prefetcher] holds IDs in
// memory before they are wanted. Both rely on one thing: what has been handed out is
// never handed out again. So an answer that nobody waits for any more is a gap, and
// asking twice is safe. An answer counts only as a whole, and only for the call that
// asked.
package messages
