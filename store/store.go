package store

import "context"

// Store counts the IDs of each tag. All methods are safe for concurrent use by
// many goroutines and processes, and return when ctx ends, if not earlier. A
// write in flight at that moment may or may not happen; callers rely on
// neither.
type Store interface {
	Reserver
	Admin
}

// Reserver is the part of a store that a process needs to load segments.
type Reserver interface {
	// Run watches the store until ctx ends. Every process that reserves calls
	// it once.
	Run(ctx context.Context)

	// Reserve returns IDs that no other call has been or will be given, a part
	// for each want; see Want.Size and Reservation. Reservations of a tag rise:
	// a call that begins after another has returned gets higher IDs. The step
	// of a table's row may be a minute old.
	//
	// The IDs are the caller's only if err is nil. An unknown outcome (a lost
	// reply, a timeout) is an error, and the IDs, if any, are discarded: no
	// later call gets them either.
	//
	// Errors: ErrNoTag, also for a removed tag; ErrExhausted, with the order
	// and the step of the tag, if no number is left, or a strict tag has too
	// few for all wants; ErrStrict, if the tag is strict and one of the wants is
	// for trend tags only; ErrCorrupt, ErrSetup, ErrRegressed, and ErrBadTag for
	// a malformed tag, no want, or a want of less than 1. After any other error
	// the call may be retried.
	Reserve(ctx context.Context, tag string, wants []Want) (Reservation, error)

	// ReserveFirst creates a tag and reserves its first IDs, as Reserve does.
	// The first ID is tag.Next or above: if a tag of that name was removed, the
	// IDs lie above all of that tag's. Ownership and unknown outcomes are as
	// for Reserve; after an unknown outcome the tag may exist.
	//
	// Errors: ErrTagExists, if nothing was reserved and the caller should call
	// Reserve; ErrNoRoom; and the errors of CreateTag, except ErrBelow, and of
	// Reserve.
	ReserveFirst(ctx context.Context, tag Tag, wants []Want) (Reservation, error)

	// Probe returns why the store does not answer, or nil. With write it also
	// writes an entry as it is, which proves that writes succeed, unless this
	// process has granted nothing yet.
	Probe(ctx context.Context, write bool) error

	// Known reports whether this process has reserved for the tag, or has read
	// its entry.
	Known(tag string) bool

	// Names calls see with the name of each tag that exists or was removed,
	// then current once, and then see for every tag that is written, all from
	// the same goroutine. A name may be repeated. It returns when ctx ends, or
	// with the error that interrupted it.
	Names(ctx context.Context, see func(tag string), current func()) error

	// Figures returns counts since the store was opened.
	Figures() Figures

	// Limited is the number below which tags end: 2^63 - 1, or less in a table
	// with a narrow column, as read lately.
	Limited() int64

	// Stopped returns the [*RegressionError] that keeps the store from
	// granting, or nil.
	Stopped() error

	// Lowest returns the lowest first ID of a new tag: 1, and more once all
	// tags were raised. A raise that this process has not adopted yet does not
	// count.
	Lowest() int64
}

// Admin is the part of a store for administrators.
type Admin interface {
	// Lookup returns the step and the order of a tag; Next is 0. They may come
	// from this process's cache: a step may be a minute old, or as old as the
	// last grant.
	//
	// Errors: ErrNoTag, also for a removed tag; ErrCorrupt, ErrSetup,
	// ErrRegressed, and ErrBadTag for a malformed tag.
	Lookup(ctx context.Context, tag string) (Tag, error)

	// Tags lists every tag, in no particular order, as of a moment after the
	// call began. Next is not below the last grant. Unreadable entries are left
	// out: Tags then returns both the readable tags and an error that wraps
	// ErrCorrupt, with an EntryError for each unreadable entry that has a name.
	Tags(ctx context.Context) ([]Tag, error)

	// Removed lists names that may be created again: of removed tags, and of
	// tags without a row. Next is the lowest first ID that such a tag may have,
	// Step is 0.
	Removed(ctx context.Context) ([]Tag, error)

	// CreateTag adds a tag. Errors: ErrTagExists, ErrBadTag, ErrSetup,
	// ErrRegressed; ErrOrder, if a tag of that name had the other order; and
	// ErrBelow, if a tag of that name was removed, or may have been lost
	// (see Tag.Earliest), and issued more.
	CreateTag(ctx context.Context, tag Tag) error

	// SetStep changes the configured step of a tag. Issued IDs are not
	// affected. Errors: ErrNoTag, ErrBadTag, ErrCorrupt, ErrSetup.
	SetStep(ctx context.Context, tag string, step int64) error

	// Raise makes next the first unissued ID, if the tag's is lower, and
	// otherwise changes nothing: a tag is never lowered. Errors: ErrNoTag,
	// ErrBadTag for a next below 1, ErrCorrupt, ErrSetup.
	Raise(ctx context.Context, tag string, next int64) error

	// RaiseRemoved makes next the lowest first ID of a removed tag, if that is
	// lower. Errors: ErrNoTag if no such removed tag is stored; the others of
	// Raise.
	RaiseRemoved(ctx context.Context, tag string, next int64) error

	// RemoveTag removes a tag, also if its row is missing. Its order and its
	// next ID stay stored, see CreateTag. Errors: ErrNoTag, ErrBadTag,
	// ErrCorrupt, ErrSetup.
	RemoveTag(ctx context.Context, tag string) error
}

// Figures count the ranges of a store since it was opened.
type Figures struct {
	Granted int64 // ranges that were granted
	// Ranges that were discarded: below earlier grants, or with an unknown
	// outcome.
	Burnt int64
	// Table rows that proved to be below an earlier grant of this process.
	RowsBack    int64
	Regressions int64 // times that the register proved to have regressed

	// The database server that answered lately, as it calls itself; empty
	// without a table.
	Server string
	// Evidence of another program that moves the rows; nil without a table.
	Moves *Moves
}
