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

	// Tags lists every tag, in no particular order, as of a moment after the call
	// began. Entries that cannot be read are left out and reported by an error
	// that wraps ErrCorrupt, beside the tags that can.
	Tags(ctx context.Context) ([]Tag, error)

	// CreateTag adds a tag. Errors: ErrTagExists, ErrBadTag.
	//
	// No store remembers tags that were deleted from it by hand: one that is made
	// again has to begin above all that was handed out before.
	CreateTag(ctx context.Context, tag Tag) error

	// SetStep changes the configured step of a tag; what is handed out stays as
	// it is. Errors: ErrNoTag, ErrBadTag, ErrCorrupt.
	SetStep(ctx context.Context, tag string, step int64) error
}
