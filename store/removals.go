package store

import "context"

// Remembering is a store that remembers how far removed tags were handed out. Tables do not; with a
// ledger they do.
type Remembering interface {
	Store

	// Removed lists the removed tags that are remembered, in no particular order: the name, and in
	// Next the lowest first ID with which such a tag may be created again. Their Step is 0.
	Removed(ctx context.Context) ([]Tag, error)

	// RaiseRemoved makes next the lowest first ID of a removed tag, if that is lower. Errors:
	// ErrNoTag if no such removed tag is remembered; the others of Raise.
	RaiseRemoved(ctx context.Context, tag string, next int64) error
}
