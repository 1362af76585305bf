// Package order checks the IDs that tests get: none comes twice, and those of
// strict tags ascend. [Ledger] takes IDs from any number of goroutines, [Check]
// a history of strict tags: requests with the times of sending and receiving,
// and with their IDs. Both use the checker of internal/history.
//
// The promise is about every two requests: if the first was answered before the
// second was sent, all IDs of the first are below all IDs of the second, for
// any callers and workers. Requests that overlapped in time may have been
// answered in either order. No ID comes twice, not even in overlapping
// requests.
//
// [Linearizable] has porcupine, which shares no code with that checker, find an
// order of the requests that explains their answers. IDs may be skipped, so any
// subset of a correct history is a correct history, and may be checked alone.
//
// Times come from the monotonic clock of the recording process. Sent is read
// before the request is sent, Received after the answer has arrived, so a pair
// counts as ordered only if it was.
//
// Unanswered requests are not part of a history. Their IDs are skipped, or were
// never seen.
package order
