// Package api answers requests for IDs over HTTP, for callers that do not speak NATS. It knows HTTP and
// nothing of where IDs come from: it asks a [Source], a process's own worker, which answers as it does
// requests that come by NATS, through the same gate and with the same limits.
//
// # Paths
//
//	GET /v1/segment/{tag}?n=    IDs of a tag                     v1.go
//	GET /v1/snowflake?n=        IDs that sort by time
//	GET /v1/openapi.yaml        the description of all this      openapi.yaml
//	GET /api/segment/get/{tag}  as Leaf's server answers them    leaf.go
//	GET /api/snowflake/get/{x}
//	GET /decodeSnowflakeId
//
// POST does the same as GET. Under /v1 a reply is JSON, with IDs as strings, or the body of a reply by
// NATS, as the caller prefers (accept.go); a code of the contract is the status. Leaf's paths answer in
// Leaf's words, so that its callers need another host name and nothing else.
//
// # What must never happen
//
// An ID that reaches two callers. So no reply may be kept by a cache, and each request asks the source
// anew: nothing is kept here, not even for a request whose caller has gone. Its IDs are burnt.
//
// An ID without right. Who may ask for what is decided before the source is asked (access.go), by the tag
// as the source will see it: a path is decoded once, by net/http, and never cleaned up. A server that wants no
// token and is for its own machine answers no page of another site, under whatever name that calls it.
//
// # What is bounded
//
//	connections  Config.Connections. One more takes the place of one whose client is waited for: of the oldest
//	             without a request that was admitted, or else of the caller's that has waited longest; if
//	             all are being answered, it is refused (connections.go). So connections without a right
//	             harm no caller, whatever they send, slowly or not at all, or do not read.
//	time         clientTimeout for a request with its body, since the answer before it; then Config.Wait
//	size         maxHeader for a header, maxBody for a body, whose content does not matter
//	requests     one at a time on a connection: HTTP/1.1 only
//
// A request that the source has parked is withdrawn when its caller goes away.
//
// # Start and stop
//
// The server listens before the worker works, so that an address that is taken is found out at once, and
// answers 503 until [Server.Answer] is called. Stop answers what is under way, with Connection: close,
// and comes before the worker stops: what is parked needs it.
//
// # Files
//
// Tokens and certificate are read again when their files change (watched.go). If the new ones cannot be
// used the old ones stay, and that is logged and a metric. A file that is half written is thus no
// outage, and neither is one that is gone.
package api
