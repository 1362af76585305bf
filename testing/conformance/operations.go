// Package conformance calls clients by these operations of their drivers. A
// question mark means that a field may be absent.
//
// # Connections
//
//	connect {client, url, user?, password?, prefix?, inbox_prefix?, timeout_ms?, own?}
//
// makes a client by that name, with the client's defaults for what is absent.
// timeout_ms is how long its calls last that have none of their own. With "own":
// true the client makes its connection; otherwise, and if the client never does,
// the driver makes it, and the client borrows it, unless it has no such feature. A connection reconnects
// without end, at least every 100 ms. connect returns when it is connected. If
// that fails, it returns the error at once, of the kind connection; bad options
// are errors of the kinds prefix and config.
//
//	close {client}             closes the client, then its connection
//	close_connection {client}  closes the connection under the client
//	drain {client}             drains that connection, and returns at once
//	kill_link {client}         closes the socket, as a broken link does
//
// Closing a client, a connection or a prefetcher again does nothing.
//
// # Calls
//
//	next {client, tag, timeout_ms?}            ranges
//	next_n {client, tag, n, timeout_ms?}       ranges
//	snowflake {client, timeout_ms?}            ranges
//	snowflake_n {client, n, timeout_ms?}       ranges
//	many {client, tag, callers, calls, timeout_ms?}  ranges, errors, descents
//	cancel {call}                              cancels the operation of that id
//
// A call with "cancelled": true is cancelled before it begins. n is a number or,
// for bad counts, any JSON value. In many, so many callers each call next so
// many times, and end at their first error. ranges are all IDs, sorted, with
// neighbours joined (two equal IDs stay two ranges); errors counts errors by
// kind; descents counts IDs below the previous ID of the same caller. A
// cancelled many or take of several callers returns what they got: cancelled is
// the last error of each.
//
// Any operation may have a traceparent: the client's option for the current trace
// gives it in the context of this operation alone, and none in others. With the
// value throw, the option throws, where the language can.
//
// # Prefetchers
//
//	prefetch {client, name, tag?, runway_ms?, limit?, max_batch?}
//	take {name, n?, callers?, mode?, workers?, timeout_ms?}  ranges, errors, descents
//	ready {name, n, timeout_ms?}                   waits for n buffered IDs
//	buffer {name}                                  buffered, in_flight, target, batch
//	close_prefetch {name}                          closes it
//
// Names of prefetchers are unique in a driver, as those of clients are. Without
// a tag, a prefetcher is of snowflake IDs. In take, so many callers (by default
// 1) each take n IDs (by default 1), and end at their first error; timeout_ms is
// that of each ID. A lone caller's error is the error of the operation. The mode
// is wait, the default, or now, which does not wait. With "workers": true, each
// caller is a worker thread of the language, which waits at a connection, a client
// and a prefetcher of its own, made with the fields of those of the name. buffered
// counts all IDs that a take could return now, in_flight those requested; target
// and batch are numbers of IDs, too.
//
//	wall {ms}        moves the wall clock that all prefetchers read, on or back
//	fork {name, n}   forks; the child takes n IDs from the prefetcher, and ends: ranges
//	checkpoint {}    does what the client does before its process is copied
//	restore {}       does what it does in a copy
package conformance
