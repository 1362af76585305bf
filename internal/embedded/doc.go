// Package embedded is a NATS server inside this process, for installations that have no
// server of their own.
//
// What idworker promises rests on three things here:
//
//   - Every write is on disk before it is acknowledged. An acknowledged range must
//     survive a power cut, or it would be handed out again. Start checks that the server
//     does so.
//   - The data folder is locked. Two servers on one folder would both hand out the same
//     numbers.
//   - A damaged folder is not served from. A server that finds its files damaged starts
//     with what it can read: without some keys, or with older values of them, and the
//     numbers that those had counted would be handed out again. So a witness notes,
//     apart from the server's own files, at which revision every key was seen. Start
//     first starts the server for this process alone and compares; only then does it
//     listen, because workers elsewhere would not wait for that.
//
// The witness learns of a write a moment after the server has acknowledged it. It cannot
// see damage to a write that it had not learnt of when the process was killed.
package embedded
