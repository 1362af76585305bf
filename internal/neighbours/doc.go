// Package neighbours finds out whether another installation answers on the same subjects.
//
// An installation is told from others by its buckets, and buckets belong to one JetStream.
// Subjects reach further: a leaf node link carries them from one JetStream domain to the
// next. Two installations that are linked in this way answer each other's callers, and both
// count from 1. So one of them must not answer.
//
// # Protocol
//
// Every process subscribes to <prefix>.hello, with the ID of its installation as the queue
// group, and publishes a [Hello] there every few seconds. So each hello reaches one process
// of each installation, however many there are, and however they are linked. A process that
// receives the hello of another installation answers with its own, to the subject
// <prefix>.hello.<instance> of the process that said it. An answer is not answered.
//
// So each process meets the other installation as soon as it says hello, and at rest, with
// one installation, n processes cost n publications and n deliveries per interval: not n².
//
// # Who gives way
//
// Of two installations the younger one gives way; of two of the same age, the one with the
// greater ID. The order is total, all see the same two values, and no clocks are compared. So
// two that meet never both leave, and never both stay.
//
//   - A process that starts says hello, waits for answers, and refuses to start if a process
//     of another installation serves, or is older. That the other one is younger does not
//     help while it serves: to displace it from a mere start would be a decision for an
//     operator.
//   - A process that starts is not yet a reason for anybody to leave.
//   - A process that serves leaves as soon as it meets one of an older installation that
//     serves. It goes on saying hello, and comes back when several in a row were not
//     answered. Hellos are counted, not seconds: after a pause of the process the time has
//     passed, but nobody was asked.
//
// The oldest installation never leaves, so somebody always answers. A process that has left
// does not serve, so it does not keep the older installation from starting again.
//
// # What this does not see
//
// Versions before this protocol do not say hello. A hello is a message like any other and may
// be lost, or not have crossed the link yet when a process starts. Then both serve until the
// next ones, for seconds. And a copy of an installation, buckets and all, has the same ID, so
// it looks like more processes of the same.
package neighbours
