// Package backend turns a DSN into a segment store of one of the kinds there are:
// counters in JetStream, or Leaf's table in MySQL or PostgreSQL.
//
// A DSN is parsed once, into a [Backend]. That is a value that knows everything the DSN
// says, and from which the store is named, created and opened. So what is malformed is
// found before anything has been done, and the DSN with its password is not passed around.
//
// To add a kind of store: write the package under store/, a [Backend] for it here, and
// its scheme in the table of [Parse].
package backend
