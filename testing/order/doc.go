// Package order checks histories of strict tags: who asked when, when the answer came, and
// with which IDs.
//
// The promise is about every two requests: if one was answered before the other was sent, all
// IDs of the first are below all IDs of the second, whoever asked whom. Requests that overlapped
// in time may have been answered in either order. No ID comes twice, also not in requests that
// overlapped.
//
// [Check] looks at all pairs in O(n log n). It goes through the requests in the order in which
// they were sent, and knows the highest ID that had been received by then: a request is at fault
// with some earlier one if and only if it is at fault with that one. Nothing is sampled.
//
// [Linearizable] asks porcupine, which knows nothing of this package, whether there is an order
// of the requests that explains their answers. Leaving requests out does not make a history
// wrong, since IDs may be skipped; so it may be asked about any part of one.
//
// Times are of one clock that only goes forward, which is that of the process that records:
// a time.Time from time.Now has it. Sent is read before the request is sent and Received after
// the answer has come, so that a pair that is called ordered is.
//
// Requests that were not answered are no part of a history. What they took is skipped, or was
// never seen.
package order
