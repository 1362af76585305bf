// Package api answers requests for IDs over HTTP, for callers without NATS. It
// gets the IDs from a [Source], the process's own worker, which applies the
// same checks and limits as to requests by NATS.
//
// # Paths
//
//	GET /v1/segment/{tag}?n=    IDs of a tag                     v1.go
//	GET /v1/snowflake?n=        IDs that sort by time
//	GET /v1/openapi.yaml        the description of this API      openapi.yaml
//	GET /api/segment/get/{tag}  as Leaf's server answers         leaf.go
//	GET /api/snowflake/get/{x}
//	GET /decodeSnowflakeId
//
// POST does the same as GET. Under /v1, a reply is JSON with IDs as strings, or
// the body of a NATS reply, as the caller prefers. A code of the contract is
// the status. Leaf's paths answer exactly like Leaf, so that its callers only
// change the host name.
//
// # Invariants
//
// No ID reaches two callers: replies must not be cached, and each request gets
// new IDs from the source. If a caller leaves early, its IDs are burnt.
//
// No ID without a right to it: handler.go checks the rights before it calls the
// source, by the tag that the source will see. net/http decodes a path once,
// and never cleans it up. A server without tokens, for its own machine, refuses
// pages of other sites under any name of that site.
//
// # Bounds
//
//	connections  Config.Connections (internal/httpguard). If there is no
//	             room, the oldest without an admitted request is closed, else
//	             the longest idle. So neither strangers nor
//	             idle callers keep a caller out.
//	time         Config.Wait and requestTimeout for a request, and for its
//	             answer; idleTimeout between requests (net/http)
//	size         maxHeader for a header, maxBody for a body
//	requests     one at a time per connection: HTTP/1.1 only
//
// The source withdraws a parked request when its caller leaves.
//
// # Start and stop
//
// The server listens before the worker works, so that a taken address is
// detected at once. It answers 503 until [Server.Answer]. Stop answers requests
// in flight, with Connection: close. It comes before the worker stops, because
// parked requests need the worker.
//
// # Files
//
// Tokens and certificate are reread every second (internal/secretfile). If the
// new contents are invalid, the old ones stay in force, and the log and a metric
// report that. So a half-written or missing file is no outage.
package api
