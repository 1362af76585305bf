// Package backend turns a DSN into a segment store: the register in JetStream,
// alone or in front of a table in a database.
//
// [Parse] or [ParseFile] is called once, before anything else. So errors in a
// DSN appear early, and the DSN with its password is not passed around.
package backend
