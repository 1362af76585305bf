// Package order checks histories of strict tags: requests with the times of
// sending and receiving, and with their IDs.
//
// The promise is about every two requests: if the first was answered before the
// second was sent, all IDs of the first are below all IDs of the second, for
// any callers and workers. Requests that overlapped in time may have been
// answered in either order. No ID comes twice, not even in overlapping
// requests.
//
// [Check] covers all pairs in O(n log n). It goes through the requests in the
// order of sending and keeps the highest ID received by then: a request
// violates the order with some earlier request if and only if it violates it
// with that ID. Nothing is sampled.
//
// [Linearizable] has porcupine, which shares no code with this package, find an
// order of the requests that explains their answers. IDs may be skipped, so any
// subset of a correct history is a correct history, and may be checked alone.
//
// Times come from the monotonic clock of the recording process: a time.Time
// from time.Now has it. Sent is read before the request is sent, Received after
// the answer has arrived, so a pair counts as ordered only if it was.
//
// Unanswered requests are not part of a history. Their IDs are skipped, or were
// never seen.
package order
