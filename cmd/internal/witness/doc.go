// Package witness keeps the witnesses of loaders at the user's own NATS servers
// (see [register.Witness]) in a folder of this machine, and decides what a start
// concludes from those that it finds there. An embedded server has a witness
// beside its data instead, see package embedded.
//
// [Folder] chooses the folder from the environment. A [Shelf] is the part of it
// that is about one address and one prefix:
//
//	<folder>/<address>/<prefix>.<installation>.<created>.<n>.witness
//
// Each process writes a file of its own, the first n whose lock it gets, so a
// process that starts again usually continues the file that it had. Two
// installations may have the same ID if an operator chose it, so the name has
// the time of creation, too. As evidence a loader reads all files about its
// installation and prefix, under whichever address they were written, because
// the address may have changed.
//
// # What a start decides
//
// The witnesses at the address are compared with the installation there by
// [Judge], before a process or command creates anything:
//
//	installation  witnesses at this address  start
//	none          none                       makes an installation
//	none          of any installation        refuses, because that was lost: [Refuse]
//	A             none, or one of A          goes on
//	A             only of others             goes on, and warns: [Warn]
//
// The refusal ends with --new, which makes an installation beside witnesses of
// others. They stay where they are: if that installation is lost in turn, the
// next start refuses again. The warning ends once a loader of A has its own
// file. Whether A itself went back is decided by package register.
//
// Witnesses at another address are no objection, so one user may have several
// installations. The accounts of one server have the same address: the first
// start in a second account needs --new if no other process or command has made
// the installation there.
//
// A witness is evidence only if it outlasts the data. [Problem] finds files that
// do not: on a file system in memory, or on the disk of the only server's data.
package witness
