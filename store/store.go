package store

import "context"

// Store counts the IDs of each tag. All methods may be called from many goroutines and
// many processes at once, and return when ctx ends, if not earlier. A write in flight at
// that moment may or may not happen, and nothing relies on which.
type Store interface {
	Loader
	Admin
}

// Loader is what a process that loads segments needs of a store.
type Loader interface {
	// Run watches over the store until ctx ends. Every process that reserves calls it once.
	Run(ctx context.Context)

	// Lookup returns the step and the order of a tag; Next is 0. They come from this process's
	// cache if they are there: a step may be a minute old, or as old as the last grant.
	//
	// Errors: ErrNoTag, also for a removed tag; ErrCorrupt, ErrSetup, ErrRegressed, and
	// ErrBadTag for a malformed tag.
	Lookup(ctx context.Context, tag string) (Tag, error)

	// Reserve hands out a segment of exactly n IDs, a range that no other call has been or
	// will be given. Segments of one tag rise: a call that begins after another has returned
	// gets a higher segment.
	//
	// The range is the caller's only if err is nil. An unknown outcome (a lost answer, a
	// timeout) is an error, and the range, if there was one, is discarded: no later call gets
	// it either.
	//
	// Errors: ErrNoTag, ErrExhausted, ErrCorrupt, ErrSetup, ErrRegressed, and ErrBadTag for a
	// malformed tag or n below 1. After any other error the call may be made again.
	Reserve(ctx context.Context, tag string, n int64) (Grant, error)

	// ReserveFirst creates a tag and hands out its first segment, of exactly n IDs. The first
	// ID is tag.Next or above: a tag of that name may have been removed, and the segment then
	// lies above all that it handed out. Ownership and unknown outcomes are as for Reserve;
	// after an unknown outcome the tag may exist.
	//
	// Errors: ErrTagExists, when nothing was reserved and Reserve is to be called; and those
	// of CreateTag, except ErrBelow, and of Reserve.
	ReserveFirst(ctx context.Context, tag Tag, n int64) (Grant, error)

	// Known reports whether this process has reserved for the tag, or has read its entry.
	Known(tag string) bool

	// Names calls see with the name of each tag that exists or was removed, then current once,
	// and then see for every tag that is written, all from one goroutine. A name may be
	// repeated. It returns when ctx ends, or with the error that broke it off.
	Names(ctx context.Context, see func(tag string), current func()) error

	// Figures returns counts since the store was opened.
	Figures() Figures

	// Stopped returns a [*RegressionError] while nothing is granted because of it, or nil.
	Stopped() error
}

// Admin is what administrators need of a store.
type Admin interface {
	// Tags lists every tag, in no particular order, as of a moment after the call began. Next
	// is not below what was granted. Entries that cannot be read are left out: Tags then
	// returns both the readable tags and an error that wraps ErrCorrupt, with an EntryError
	// for each entry whose name is known.
	Tags(ctx context.Context) ([]Tag, error)

	// Removed lists names that may be created again: those of removed tags, and of tags whose
	// row is missing. Next is the lowest first ID that such a tag may have, Step is 0.
	Removed(ctx context.Context) ([]Tag, error)

	// CreateTag adds a tag. Errors: ErrTagExists, ErrBadTag, ErrSetup, ErrRegressed; ErrOrder,
	// if a tag of that name had the other order; and ErrBelow, if one was removed, or may have
	// been lost, and handed out more.
	CreateTag(ctx context.Context, tag Tag) error

	// SetStep changes the configured step of a tag. What is handed out already is not
	// affected. Errors: ErrNoTag, ErrBadTag, ErrCorrupt, ErrSetup.
	SetStep(ctx context.Context, tag string, step int64) error

	// Raise makes next the first ID that is not handed out yet, if the tag's is lower, and
	// leaves it as it is otherwise: a tag is never lowered. Errors: ErrNoTag, ErrBadTag for a
	// next below 1, ErrCorrupt, ErrSetup.
	Raise(ctx context.Context, tag string, next int64) error

	// RaiseRemoved makes next the lowest first ID of a removed tag, if that is lower. Errors:
	// ErrNoTag if no such removed tag is stored; the others of Raise.
	RaiseRemoved(ctx context.Context, tag string, next int64) error

	// RemoveTag removes a tag, also one whose row is missing. Its order, and how far it was
	// handed out, stay stored, see CreateTag. Errors: ErrNoTag, ErrBadTag, ErrCorrupt, ErrSetup.
	RemoveTag(ctx context.Context, tag string) error
}

// Figures count what a store did with ranges since it was opened.
type Figures struct {
	Granted     int64 // ranges that were handed out
	Burnt       int64 // ranges that were discarded: below earlier grants, or with an unknown outcome
	RowsBack    int64 // rows of a table that proved to be below an earlier grant of this process
	Regressions int64 // times that the register proved to have gone back
}
