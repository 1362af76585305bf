package store

import "context"

// Reserver is the part of the register that a process needs to load segments. All
// methods are safe for concurrent use by many goroutines and processes, and
// return when ctx ends, if not earlier. A write in flight at that moment may or
// may not happen; callers rely on neither.
type Reserver interface {
	// Run watches the store until ctx ends. Every process that reserves calls
	// it once. Before the first grant, before the first one after a decision, and
	// once the store did not answer for some seconds, Run calls ask, which asks all other processes what they know,
	// passes their claims to Hear, and returns nil once all had the time to answer.
	// Until then nothing is granted. After an error it is called again. Without ask
	// nobody is asked.
	Run(ctx context.Context, ask func(context.Context) error)

	// Asked is closed once others were asked for the first time, so that the
	// store grants unless it has stopped.
	Asked() <-chan struct{}

	// Hear checks a claim of another process, by which this one may have to stop.
	// It does nothing if the claim is void.
	Hear(ctx context.Context, c Claim)

	// Claims returns what this process reports to others: its own position, and the
	// claim that has stopped it, if any.
	Claims() []Claim

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
	// Reserve; ErrNoRoom; ErrOrder, if a removed tag of that name had the other
	// order; and the errors of Reserve.
	ReserveFirst(ctx context.Context, tag Tag, wants []Want) (Reservation, error)

	// Probe returns why the store does not answer, or nil. With write it also
	// writes an entry as it is, which proves that writes succeed, unless this
	// process has granted nothing yet.
	Probe(ctx context.Context, write bool) error

	// Known reports whether this process has reserved for the tag, or has read
	// its entry.
	Known(tag string) bool

	// HasEntry reports whether this process has read an entry of the tag, which
	// a removed tag has, too.
	HasEntry(tag string) bool

	// Count returns the number of tags, removed ones included, whose names match
	// one of the patterns, which must not overlap. The server counts: no names
	// are transferred. It may lack what was written lately.
	Count(ctx context.Context, patterns ...string) (int64, error)

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
