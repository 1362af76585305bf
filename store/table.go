package store

import "context"

// Table is a database table with one row a tag, such as Leaf's. It proposes ranges, and the
// register decides whether they are granted: a table may forget, go back, or be the wrong
// one, and no ID is granted twice. Tags exist if they have a row. Rows have no order: the
// register keeps it, so methods ignore [Tag].Order, and return it empty.
//
// Methods may be called from many goroutines and many processes at once. A statement is
// sent at most once. After an error that is none of those below the outcome is unknown.
type Table interface {
	// Reserve raises a row by n and returns the n numbers below its new value. Errors:
	// ErrNoTag, ErrExhausted, ErrCorrupt, ErrSetup, and ErrBadTag for a malformed tag or n
	// below 1.
	Reserve(ctx context.Context, tag string, n int64) (Segment, error)

	// Find returns one row. Errors: ErrNoTag, ErrBadTag, ErrCorrupt, ErrSetup.
	Find(ctx context.Context, tag string) (Tag, error)

	// Tags lists all rows as they are, in bounds or not. Errors are those of [Admin].
	Tags(ctx context.Context) ([]Tag, error)

	// CreateTag inserts a row. Errors: ErrTagExists, ErrBadTag, ErrSetup.
	CreateTag(ctx context.Context, tag Tag) error

	// SetStep, Raise and RemoveTag change a row as [Admin] says. RemoveTag deletes it, and the
	// table does not remember the tag.
	SetStep(ctx context.Context, tag string, step int64) error
	Raise(ctx context.Context, tag string, next int64) error
	RemoveTag(ctx context.Context, tag string) error
}

// Database is a [Table] with what is looked at before it is used.
type Database interface {
	Table

	// Check reports whether the database can serve as a store: it answers, lets the user in,
	// and has a table that is durable and that the user may change. Otherwise the error is
	// ErrSetup, or wraps it: ErrNoTable or an [UnsafeTableError]. Any other error means that the
	// database is away.
	Check(ctx context.Context) error

	// CheckFirst reports whether the table can take tags of any name: the user may insert
	// rows, and no collation makes two tags equal. Errors are those of Check.
	CheckFirst(ctx context.Context) error

	// Durability returns an [UnsafeSettingError] for each setting with which commits are
	// acknowledged before they are on disk, and [ErrSettingUnknown] for each that the server
	// does not reveal, joined. Any other error means that the database does not answer.
	Durability(ctx context.Context) error

	// Migrate creates the table if it is missing. An existing table is left as it is.
	Migrate(ctx context.Context) error

	// Close closes the connections.
	Close() error
}
