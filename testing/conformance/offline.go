// Package conformance calls clients by these operations, too, which need no
// server. A question mark means that a field may be absent.
//
//	pace {runway_ms, limit, steps}  targets
//	schedule {events}               waits
//
// # Pace
//
// pace follows the target of a new prefetcher through virtual time. A step is a
// list of two integers, [ms, taken]: so many milliseconds pass, callers take so
// many IDs in that time, and then the target is updated once. targets has the
// target after each step.
//
// # Schedule
//
// schedule makes a call, in virtual time, that meets events one after another.
// Each event but ids is met where the call would send a try:
//
//	silent         the try is sent, and nothing replies to it
//	busy           the try is sent, and a reply has the code 429 at once
//	unavailable    as busy, with the code 503
//	no_responders  as busy, with the server's status 503
//	disconnected   the call finds the connection lost, and sends nothing
//	ids            the try is sent and served; always the last event
//
// A connection that was lost is back before the event that follows. waits has
// the time between each event and the next, in milliseconds, as a list of two
// numbers: with the least random value, which makes pauses half as long, and
// with the greatest, which makes them full. A driver that cannot set the
// client's random source makes the call a hundred times, and returns the
// shortest and the longest of each wait; so the cases allow a tenth. The call
// has no deadline. After silence no pause is above 250 ms, as docs/protocol.md
// says.
package conformance
