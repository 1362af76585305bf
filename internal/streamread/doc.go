// Package streamread reads a stream: in order, in bulk, and whatever the messages look like.
// A [Reader] reads a range of its sequences, a [Tail] all that is behind one, and what comes
// later.
//
// # What it promises
//
// [Reader.Next] returns each message of the range that the stream's leader has, once, in
// order. A sequence that it passes over has no message on a subject of the filter: it never
// had one, or the message has been removed. That is what makes it possible to conclude
// something from a message that is not there.
//
// # How
//
// Messages come from a pull consumer of the reader's own, which keeps no state that matters.
// The reader speaks to it itself. The loops of the client take a message without a body for
// one of the server if it has a header Status, which anybody can publish, and never get past
// it. Here an event is what arrives with a reply subject of this consumer; that is what only
// the server can set. The next event must be the consumer's next, and above the one before.
//
// Whenever the consumer is quiet, has ended, or delivers something else, the reader asks the
// stream's leader for the next message by STREAM.MSG.GET. If there is none in the range, the
// end is reached. If there is one, that is the next message, and a new consumer goes on behind
// it. So a consumer that is lost, or on a replica that lags behind, costs time and nothing
// else.
//
// A tail ends with an error instead. A stream that was deleted and made again, or restored,
// ends its consumers, and whoever reads on without an end has to make sure first that it is
// still the same. While it is quiet, the tail too asks the leader: if the same message is there
// twice, and the consumer does not deliver it, the consumer is given up.
//
// A consumer takes part in the retention of streams that remove what was consumed. A stream
// without limits retention is therefore read by such requests alone: one finds the next
// message, and those at the sequences behind it are asked for at once. [Reader.WithoutConsumer]
// reads any stream that way, for those who may read and nothing else: who may make a consumer
// can have the server send messages to other subjects.
package streamread
