package store

import "context"

// Store remembers how far the IDs of each tag have been handed out.
//
// All methods may be called from many goroutines and many processes at once. They
// return when ctx ends, if not earlier. A write that is under way at that moment may or
// may not happen, and nothing relies on which.
type Store interface {
	// Reserve hands out a segment of exactly step IDs, a range that no other call has
	// been or will be given. Segments of one tag rise: a call that begins after another
	// has returned gets a higher segment.
	//
	// The range is the caller's only if err is nil. An unknown outcome (a lost answer,
	// a timeout) is an error, and the range, if there was one, is burnt: no later call
	// gets it either.
	//
	// Errors: ErrNoTag, ErrExhausted, ErrCorrupt, ErrSetup, and ErrBadTag for a
	// malformed tag or a step below 1. After any other error the call may be made
	// again.
	Reserve(ctx context.Context, tag string, step int64) (Segment, error)

	// ReserveFirst creates a tag and hands out its first segment, of exactly n IDs, in one
	// write: tag.Next is the lowest first ID. If the store remembers a tag of that name that
	// RemoveTag removed, the segment lies above what that one handed out. What is said of Reserve
	// about ownership and unknown outcomes holds here, too: after such an error the tag may be
	// there.
	//
	// Errors: ErrTagExists, when nothing was reserved and Reserve is to be called; ErrUncertain; and
	// those of CreateTag, but for ErrBelow, and of Reserve.
	ReserveFirst(ctx context.Context, tag Tag, n int64) (Segment, error)

	// Tags lists every tag, in no particular order, as of a moment after the call
	// began. Entries that cannot be read are left out: Tags then returns both the tags
	// that can be read and an error that wraps ErrCorrupt, and an EntryError for each entry
	// whose name is known.
	Tags(ctx context.Context) ([]Tag, error)

	// CreateTag adds a tag. Errors: ErrTagExists, ErrBadTag, ErrSetup; and ErrBelow, if the
	// store remembers a tag of that name that RemoveTag removed, and that handed out more.
	//
	// A table does not remember removed tags, and no store remembers those that were deleted
	// from it by hand: a tag that is created again has to begin above everything that was
	// handed out before.
	CreateTag(ctx context.Context, tag Tag) error

	// SetStep changes the configured step of a tag. What is handed out already is not
	// affected. Errors: ErrNoTag, ErrBadTag, ErrCorrupt, ErrSetup.
	SetStep(ctx context.Context, tag string, step int64) error

	// Raise makes next the first ID that is not handed out yet, if the tag's is lower, and
	// leaves it as it is otherwise: a tag is never lowered. The step stays. Errors: ErrNoTag,
	// ErrBadTag for a next below 1, ErrCorrupt, ErrSetup.
	Raise(ctx context.Context, tag string, next int64) error

	// RemoveTag removes a tag. What it handed out is not forgotten where the store can help
	// it: see CreateTag. Errors: ErrNoTag, ErrBadTag, ErrSetup; and ErrCorrupt where the
	// store would have to remember what it cannot read.
	RemoveTag(ctx context.Context, tag string) error
}
