package store

import "context"

// Table is a database table with one row per tag, such as Leaf's. It proposes
// ranges, and the register decides whether they are granted. A table may lose
// rows, regress, or be the wrong table, and the register grants no ID twice.
// Tags exist if they have a row. Rows have no order: the register stores it, so
// methods ignore [Tag].Order, and return it empty.
//
// Methods are safe for concurrent use by many goroutines and processes. A
// statement is sent at most once. After an unlisted error the outcome is
// unknown.
type Table interface {
	// Reserve raises a row by n and returns the n numbers below its new value.
	// Errors: ErrNoTag; ErrExhausted, also if a constraint refuses the raise;
	// ErrCorrupt, ErrSetup, and ErrBadTag for a malformed tag or n below 1.
	Reserve(ctx context.Context, tag string, n int64) (Segment, error)

	// ReserveRest reserves what is left of a row, at most so many numbers. It
	// is for a row of which Reserve has returned ErrExhausted. Errors are those
	// of Reserve.
	ReserveRest(ctx context.Context, tag string, most int64) (Segment, error)

	// Find returns the row of a tag. Errors: ErrNoTag, ErrBadTag, ErrCorrupt,
	// ErrSetup.
	Find(ctx context.Context, tag string) (Tag, error)

	// Tags lists all rows unchecked, in bounds or not. A row whose name is not
	// that of a tag may have any numbers. Unreadable rows are left out: Tags then
	// returns both the readable rows and an error that wraps ErrCorrupt, with an
	// EntryError for each unreadable row that has a name.
	Tags(ctx context.Context) ([]Tag, error)

	// CreateTag inserts a row. Errors: ErrTagExists, ErrBadTag, ErrSetup.
	CreateTag(ctx context.Context, tag Tag) error

	// SetStep changes the step of a row, which affects no number. Errors:
	// ErrNoTag, ErrBadTag, ErrCorrupt, ErrSetup.
	SetStep(ctx context.Context, tag string, step int64) error

	// Raise raises the value of a row to next, if it is lower. Errors: ErrNoTag,
	// ErrBadTag for a next below 1, ErrCorrupt, ErrSetup.
	Raise(ctx context.Context, tag string, next int64) error

	// RemoveTag deletes a row whose value is at most next, and the table keeps
	// nothing of the tag. Every range from the row lies below next, those of
	// Leaf's servers too, so callers store next first. Errors: ErrChanged, if
	// the row is higher; ErrNoTag, ErrCorrupt, ErrSetup, and ErrBadTag for a
	// malformed tag or a next below 1.
	RemoveTag(ctx context.Context, tag string, next int64) error

	// Probe returns nil if the server answers and takes writes. It changes no
	// row, and does not prove that a row can be changed.
	Probe(ctx context.Context) error

	// Server names the server that answered lately, such as db-1:3306, as it
	// calls itself: behind one address it may change. It is empty until one has
	// answered.
	Server() string

	// Limit returns the largest value of the column's type, at most 2^63 - 1. A
	// constraint may end a row earlier. Errors: ErrSetup, also for a type that is
	// no integer.
	Limit(ctx context.Context) (int64, error)

	// Limited is Limit as it was read lately, 2^63 - 1 before that.
	Limited() int64
}

// Database is a [Table] with the checks that precede its use.
type Database interface {
	Table

	// Check reports whether the database can serve as a store: it answers, lets
	// the user in, and has a durable table that the user may change. Otherwise
	// the error is ErrSetup, or wraps it: ErrNoTable or an [UnsafeTableError].
	// Any other error means that the database is unreachable.
	Check(ctx context.Context) error

	// CheckFirst reports whether the table can take tags of any name: the user
	// may insert rows, and no collation makes two tags equal. Errors are those
	// of Check.
	CheckFirst(ctx context.Context) error

	// Durability returns an [UnsafeSettingError] for each setting that
	// acknowledges commits before they are on disk, and [ErrSettingUnknown] for
	// each that the server does not reveal, joined. Any other error means that
	// the database is unreachable.
	Durability(ctx context.Context) error

	// Migrate creates the table if it is missing. An existing table is not
	// changed.
	Migrate(ctx context.Context) error

	// Close closes the connections.
	Close() error
}
