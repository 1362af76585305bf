// Package streamread reads a stream in order and in bulk, with any messages. A
// [Reader] reads a range of its sequences, a [Tail] all messages after a
// sequence, present and future.
//
// # What it promises
//
// [Reader.Next] returns each message of the range that the stream's leader has,
// once, in order. A sequence that it skips has no message on a subject of the
// filter: it never had one, or the message was removed. Otherwise a missing
// message would prove nothing.
//
// # How
//
// Messages come from the reader's own pull consumer, which keeps no state that
// matters. The reader does not use the client's loops: they mistake a message
// without a body for a status of the server if it has a header Status, which
// any publisher can set, and never get past it. Here, a message counts as an
// event if it has a reply subject of this consumer, which only the server can
// set. The next event must be the consumer's next, and above the previous
// event.
//
// If the consumer is quiet, has ended, or delivers something else, the reader
// requests the next message from the stream's leader by STREAM.MSG.GET. Without
// such a message in the range, the reader is at its end. Otherwise it returns
// that message, and a new consumer continues after it. So a consumer that is
// lost, or on a lagging replica, costs only time.
//
// A tail ends with an error instead. Recreating or restoring a stream ends its
// consumers, so a caller that reads without an end has to check first that the
// stream is still the same. A quiet tail queries the leader too: if the leader
// returns the same message twice and the consumer does not deliver it, the tail
// fails.
//
// A consumer takes part in the retention of streams that remove consumed
// messages. A stream without limits retention is therefore read by requests to
// the leader alone: the first finds the next message, and the following
// sequences are requested concurrently. [Reader.WithoutConsumer] reads any
// stream that way, for users with read rights only: a user who may create a
// consumer can have the server send messages to other subjects.
//
// Buckets are read by package kv, which explains why there are two readers.
//
// Files: pull.go (the consumer and its requests), reader.go, tail.go, leader.go
// (requests for single messages).
package streamread
