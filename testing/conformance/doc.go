// Package conformance holds the tests that a client of every language must
// pass: one list of cases, run with each client.
//
// A client is tested through its driver, a program in the client's language
// that calls it as instructed. The tests start the driver, write operations to
// its stdin and read results from its stdout. A new language is one driver, and
// one line in the list of clients in conformance_test.go. The cases are of three
// kinds: unit_*_test.go need the driver alone, scripted_*_test.go a NATS server
// of this process with a responder that follows a script, and real_*_test.go
// the built binary. Each client's own tests read messages/testdata/vectors.json,
// so no case repeats what that file has, such as how a reply is read.
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
// whatever is under way. An operation or a field that it does not have is an
// error of the kind driver. An ok without results is {}. IDs are strings, and
// ranges are lists such as ["1-3","7"].
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
//	cancel      cancel, and calls that are cancelled before they begin
//	close       a client can be closed apart from its connection
//	borrow      connect with "own": false; close_connection and drain
//	coalescing  concurrent calls of next for a tag share requests
//	ready       ready, and take with the mode now
//	fork        fork
//	checkpoint  checkpoint and restore
//	workers     take with workers
//	statuses    a reply with a status keeps its body (jnats drops it)
//	headerless  a server without headers is enough (jnats asks for more)
//
// operations.go lists the operations, and offline.go those without a server.
package conformance
