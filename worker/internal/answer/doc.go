// Package answer answers requests for IDs: IDs of tags from an allocator's
// buffers, and snowflake IDs from a generator. Requests arrive by NATS, through
// an [Endpoint], or from the process itself, such as HTTP, through
// [Answerer.Segment] and [Answerer.Snowflake]. Both ways share buffers, limits,
// errors and counters.
//
//	answers := answer.New(cfg, alloc)
//	service.AddEndpoint("segment", answers.Segments(late, barrier), …)
//	reply, err := answers.Segment(ctx, "order", nil, false, "")
//
// A handler never blocks: it replies from a buffer, refuses, or parks the
// request in the allocator. The owner of the allocator calls the method Reply
// of a parked request's From, once, with the result of
// [allocator.Allocator.Replies].
//
// # Invariants
//
//   - A request gets one reply, unless it came by NATS and the worker dies. No two
//     replies have an ID in common.
//   - No reply is sent to a subject of the worker or the server itself.
//   - A reply from a buffer adds no lock, no allocation and no reading of the
//     clock to a bare micro endpoint.
//   - After [Endpoint].End has returned, the endpoint handles nothing more.
//   - A reply is counted before it is sent.
//
// # Files
//
//	answer.go   Answerer, and the code of each error
//	nats.go     the endpoints, and the late reply to a parked request
//	direct.go   requests of the process itself
//	figures.go  counters and metrics
//	log.go      requests that were refused, or slow
package answer
