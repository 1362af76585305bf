// Package answer answers requests for IDs: those of tags from an allocator's memory,
// and snowflake IDs from a generator. Requests come by NATS, through an [Endpoint], or
// from the process itself, such as HTTP, through [Answerer.Segment] and
// [Answerer.Snowflake]. Both ways share memory, limits, errors and figures.
//
//	answers := answer.New(cfg, alloc)
//	service.AddEndpoint("segment", answers.Segments(late), …)
//	reply, err := answers.Segment(ctx, "order", nil, false)
//
// A handler never blocks: it replies from memory, refuses, or parks the request in the
// allocator. The owner of the allocator calls the method Reply of a parked request's
// From, once, with what [allocator.Allocator.Effects] returned.
//
// # What callers rely on
//
//   - A request gets one reply, by NATS unless the worker dies, and no two replies
//     have an ID in common.
//   - No reply is sent to a subject that is the worker's own or the server's.
//   - A reply in memory costs no lock, no allocation, and no reading of the clock
//     beyond those of a bare micro endpoint.
//   - After [Endpoint].End has returned, the endpoint handles nothing more.
//   - A reply is counted before it is sent.
//
// # Files
//
//	answer.go   Answerer, and the code of each error
//	nats.go     the endpoints, and the late reply to a parked request
//	direct.go   requests of the process itself
//	figures.go  counters and metrics
package answer
