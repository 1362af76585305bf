package store

import "context"

// Store remembers how far the IDs of each tag have been handed out.
//
// All methods may be called from many goroutines and many processes at once.
// They return when ctx ends, at the latest; a write that was under way then may
// or may not have happened, and nothing relies on which.
type Store interface {
	// Reserve hands out a segment of exactly step IDs, a range that no other
	// call has been or will be given. Segments of one tag rise: one that was
	// reserved after another had returned lies above it.
	//
	// The range is the caller's only if err is nil. An outcome that is unknown
	// (a lost answer, a timeout) is an error, and the range, if there was one,
	// is burnt: no later call gets it either.
	//
	// Errors: ErrNoTag, ErrExhausted, ErrCorrupt, ErrBadTag for a step below 1;
	// anything else may be tried again.
	Reserve(ctx context.Context, tag string, step int64) (Segment, error)

	// Tags lists every tag, in no particular order.
	Tags(ctx context.Context) ([]Tag, error)

	// CreateTag adds a tag. Errors: ErrTagExists, ErrBadTag.
	CreateTag(ctx context.Context, tag Tag) error

	// SetStep changes the configured step of a tag; what is handed out stays as
	// it is. Errors: ErrNoTag, ErrBadTag.
	SetStep(ctx context.Context, tag string, step int64) error
}
