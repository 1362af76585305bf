package store

import "errors"

// The errors that a caller can act on. Backends wrap them with what they know;
// every other error means that the store is away, or that the outcome of a
// write is unknown, and the call may be made again.
var (
	// ErrNoTag: the store has no such tag.
	ErrNoTag = errors.New("no such tag")

	// ErrTagExists: CreateTag found a tag of that name; it is left as it was.
	ErrTagExists = errors.New("tag exists already")

	// ErrExhausted: the numbers of the tag are used up to within one step of
	// 2^63. Nothing was reserved; a smaller step may still fit.
	ErrExhausted = errors.New("tag is exhausted")

	// ErrBadTag: the tag's definition is out of bounds, see Tag.Check.
	ErrBadTag = errors.New("bad tag definition")

	// ErrCorrupt: what is stored for the tag cannot be read as a counter.
	// Nothing was changed; an operator has to look at it.
	ErrCorrupt = errors.New("corrupt entry")

	// ErrSetup: the database answers, but not as a store: user, password,
	// privileges, table or columns are not as they have to be, or it takes no
	// writes. The message names the remedy. Nothing was changed; calls fail until
	// somebody applies it.
	ErrSetup = errors.New("database is not set up as a store")
)
