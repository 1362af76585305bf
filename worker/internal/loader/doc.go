// Package loader is the loader of a process: it reserves segments for load
// events, and sends the grants.
//
// Load events arrive through the load stream, as plain messages on ids.reserve,
// or from the process itself. A loader answers every event that it takes by a
// message on the worker's grant subject: a grant, a refusal, or not now. It
// does not retry: the worker does.
//
// Events for a tag wait in the tag's queue, and a single call of the store
// serves them all. A call serves only events that arrived before it began,
// which the order of strict tags relies on.
//
// A call takes a slot. Tags are judged only by the time their calls spend
// there. A tag is slow if its latest call failed or took much longer than
// usual. Slow tags share an eighth of the slots, where each call may take the
// whole timeout, and have all slots that no other tag needs. When another tag
// waits and no slot is free, the oldest call that takes too long is ended, and
// its tag is slow. So locked rows delay other tags once, for a moment.
//
// Tags that may not exist take turns with existing tags.
//
// A breaker judges the store. While it is open, it admits one call every 750
// ms, and events that have waited for that long are answered with not now.
// Their tags count as slow until it closes. So hanging rows that look like a
// hanging store do not keep the next calls from other tags.
//
//	loader.go    the service: calls the store and answers
//	schedule.go  which tag is called next
//	judge.go     which tags are slow, and whether the store fails
//	failing.go   tags whose numbers end, or that cannot be granted
//	lookup.go    tags that are new to the loader, and the limits of templates
//	stream.go    the load stream, and when its events are acked
package loader
