// Package store says what a segment store is: the place that remembers how far the IDs
// of each tag have been handed out.
//
// A store is the only authority on uniqueness. Everything above it (buffers, load
// events, grants) may be lost, duplicated, late or out of order, and still no ID is
// handed out twice, as long as one rule holds here: a range that Reserve has returned
// is never returned again, to anybody, for as long as the data lives.
//
// The store is store/register, in JetStream: by itself, or in front of a [Table] in a
// database, such as Leaf's in store/sql. It passes the contract suite testing/storetest
// either way. docs/adding-a-store.md shows how to add a table.
package store
