// Package load is the loader of a process: it reserves segments for load events, and
// sends the grants.
//
// Load events arrive through the load stream, as plain messages on ids.reserve, or from
// the process itself. Every event that a loader takes is answered by a message on the
// worker's grant subject: a grant, a refusal, or not now. Nothing is retried here: the
// worker asks again.
//
// Events for one tag wait in the tag's queue, and are served by one call of the store.
// A call serves only events that had arrived when it began, which the order of strict
// tags relies on.
//
// A call takes a slot. The time that it spends there is all that tags are judged by. A
// tag whose latest call failed, or took much longer than calls do, is slow. Slow tags
// share an eighth of the slots, where each call may take the whole timeout, and have
// those that no others want. When another tag waits and no slot is free, the oldest call that takes too long is ended,
// and its tag is slow. So rows that somebody locked delay others once, for a moment.
//
// Tags that may not exist take turns with those that are known.
//
// A breaker judges the store. While it is open, one call every 750 ms is let through,
// and events that have waited for that long are answered with not now. Their tags count
// as slow until it closes: rows that hang, and look like a store that hangs, do not keep
// the next calls from the tags of others.
//
// The files: loader.go is the service, calls the store and answers; schedule.go decides
// which tag is called next, pace.go which tags are slow, breaker.go whether the store
// fails; lookup.go and census.go are for tags that the loader does not know; stream.go
// is the load stream.
package load
