// Package store says what a segment store is: the place that remembers how far the IDs
// of each tag have been handed out.
//
// A store is the only authority on uniqueness. Everything above it (buffers, load
// events, grants) may be lost, duplicated, late or out of order, and still no ID is
// handed out twice, as long as one rule holds here: a range that Reserve has returned
// is never returned again, to anybody, for as long as the data lives.
//
// The backends are store/jetstream (no database at all), and store/mysql and
// store/postgres (Leaf's own table). All of them pass the same contract suite,
// testing/storetest. To add a backend, implement [Store] in a package of its own, run
// that suite in its test, and give cmd/internal/backend a scheme that opens it.
package store
