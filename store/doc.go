// Package store defines the segment store, which records how many IDs of each
// tag were granted.
//
// A store is the only authority on uniqueness. Everything above it (buffers,
// load events, grants) may be lost, duplicated, late or out of order without a
// duplicate ID, as long as one rule holds here: a range returned by Reserve is
// never returned again, to any caller, for as long as the data lives.
//
// The store is store/register, in JetStream: alone, or in front of a [Table] in
// a database, such as Leaf's in store/sql. Both pass the contract suite
// testing/storetest. docs/adding-a-store.md shows how to add a table.
package store
