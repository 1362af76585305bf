// Package conformance holds the tests that a client of every language must
// pass: one list of cases, run with each client.
//
// A client is tested through its driver, a program in the client's language
// that calls it as told. The tests start the driver, write operations to its
// stdin and read results from its stdout. A new language is one driver, and one
// line in the list of clients in conformance_test.go. The cases are of three
// kinds: unit_*_test.go need the driver alone, scripted_*_test.go a NATS server
// of this process with a [responder] that follows a script, and real_*_test.go
// the built binary.
//
// # The driver's protocol
//
// An operation is a JSON object on a line of its own, such as
//
//	{"id":7,"op":"next","client":"a","tag":"order","timeout_ms":60000}
//
// The driver answers each once, in any order, with a line of stdout:
//
//	{"id":7,"ok":{"ranges":["1"]}}
//	{"id":7,"error":{"kind":"timeout","text":"…","reason":"no_reply","tries":9,"retryable":true}}
//
// Operations run concurrently, up to a thousand calls at once. Nothing else is
// written to stdout; logs go to stderr. At EOF the driver ends with code 0,
// whatever is under way. An operation or a field that it does not know is an
// error of the kind driver. An ok without results is {}. IDs are strings, ranges
// are lists such as ["1-3","7"], and bodies are base64.
//
// An error has the kind that the client reports in its own way, as the page of
// errors of each client lists: prefix, tag, count, config; malformed (400),
// no_tag (404), strict (409), exhausted (507), busy (429), unavailable (503),
// code (any other); bad_reply, denied, connection, closed; timeout, cancelled,
// empty. The text is the client's message. The code is that of an error reply,
// if there was one. A timeout has as its reason busy, unavailable, no_reply,
// no_responders or disconnected, and so has cancelled if the client reports one.
// Tries is the number of requests that the call sent, if the client reports it.
//
// hello returns the language, the client's version, and the features that it
// has. A case that needs another feature is not run, and never passes.
//
//	threads     callers of many and take are threads
//	sync        calls block a thread
//	close       a client can be closed apart from its connection
//	coalescing  concurrent calls of next for a tag share requests
//	ready       ready, and take with the mode now
//	fork        fork
//	checkpoint  checkpoint and restore
//	workers     callers of take run in worker threads, each with a client
//
// # Connections
//
//	connect {client, url, user?, password?, prefix?, inbox_prefix?, timeout_ms?, own?}
//
// makes a client by that name, with the client's defaults for what is absent.
// timeout_ms is how long its calls last that have none of their own. With "own":
// true the client makes its connection; otherwise, and if the client never does,
// the driver makes it, and the client borrows it. A connection reconnects
// without end, at least every 100 ms. connect returns when it is connected; its
// first failure is its error, of the kind connection.
//
//	close {client}             closes the client, then its connection
//	close_connection {client}  closes the connection under the client
//	drain {client}             drains that connection, and returns at once
//	kill_link {client}         closes the socket, as a broken link does
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
// kind; descents counts IDs below the previous ID of the same caller.
//
// # Prefetchers
//
//	prefetch {client, name, tag, runway_ms?, limit?, max_batch?}
//	take {name, n?, callers?, mode?, timeout_ms?}  ranges, errors, descents
//	ready {name, n, timeout_ms?}                   waits for n buffered IDs
//	buffer {name}                                  buffered, in_flight, target, batch
//	close_prefetch {name}                          closes it
//
// Names of prefetchers are unique in a driver, as those of clients are. In take,
// so many callers (by default 1) each take n IDs (by default 1), and end at
// their first error; timeout_ms is that of each ID. A lone caller's error is
// the error of the operation. The mode is wait, the default, or now, which does
// not wait. buffered counts all IDs that a take could return now, in_flight
// those requested; target and batch are numbers of IDs, too.
//
//	wall {ms}        moves the wall clock that all prefetchers read, on or back
//	fork {name, n}   forks; the child takes n IDs from the prefetcher, and ends: ranges
//	checkpoint {}    does what the client does before its process is copied
//	restore {}       does what it does in a copy
//
// # Without a server
//
//	decode {body, n}, decode_reply {headers, body, n}  ranges
//	count {n}, tag {tag}, prefix {prefix}              check it
//	pace {runway_ms, limit, steps}    targets after each step, [ms, IDs taken by then]
//	schedule {events}                 waits
//	vectors {file}                    checks the client with vectors.json
package conformance
