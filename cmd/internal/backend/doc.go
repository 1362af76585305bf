// Package backend turns a DSN into a segment store: the register in JetStream, alone or in
// front of a table in a database.
//
// A DSN is parsed once, into a [Backend], so what is malformed is found before anything is
// done, and the DSN with its password is not passed around.
package backend
