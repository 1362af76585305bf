// Package api answers requests for IDs over HTTP, for callers that do not speak
// NATS. It asks a [Source], a process's own worker, which answers as it answers
// requests by NATS, through the same gate and with the same limits.
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
// POST does the same as GET. Under /v1 a reply is JSON, with IDs as strings, or
// the body of a reply by NATS, as the caller prefers; a code of the contract is
// the status. Leaf's paths answer in Leaf's words, so that its callers need
// another host name and nothing else.
//
// # Invariants
//
// No ID reaches two callers: no reply may be cached, and each request asks the
// source. The IDs of a caller that went away are burnt.
//
// No ID without a right to it: handler.go decides who may ask before it asks
// the source, by the tag as the source will see it. net/http decodes a path
// once, and nothing cleans it up. A server without tokens, for its own machine,
// answers no page of another site, under any name of that site.
//
// # Bounds
//
//	connections  Config.Connections (netutil.LimitListener). If there is no room
//	             for one more, the oldest one without an admitted request is
//	             closed, else the longest idle one (connections.go), so neither
//	             strangers nor callers that ask for nothing keep a caller out.
//	time         Config.Wait and requestTimeout for a request, and for its answer;
//	             idleTimeout between two of them (net/http)
//	size         maxHeader for a header, maxBody for a body
//	requests     one at a time on a connection: HTTP/1.1 only
//
// The source withdraws a parked request when its caller goes away.
//
// # Start and stop
//
// The server listens before the worker works, so that a taken address is found
// at once, and answers 503 until [Server.Answer]. Stop answers requests under
// way, with Connection: close, and comes before the worker stops: parked ones
// need it.
//
// # Files
//
// Tokens and certificate are reread when their contents change (watched.go). If
// the new ones cannot be used the old ones stay in force, and the log and a
// metric report it. So a file that is half written or gone is no outage.
package api
