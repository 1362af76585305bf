package store

import (
	"errors"
	"fmt"
	"math"

	"github.com/idworker/idworker/internal/problem"
)

// The errors that a caller can act on. Backends wrap them with details. Every
// other error means that the store is unreachable, or that the outcome of a
// write is unknown; the call may be retried.
var (
	// ErrNoTag: the store has no such tag.
	ErrNoTag = problem.New(problem.NotFound, "no such tag")

	// ErrTagExists: CreateTag found a tag of that name and did not change it.
	ErrTagExists = errors.New("tag already exists")

	// ErrExhausted: no number is left below 2^63, or in the column of a table;
	// or fewer than a call needs. Nothing was reserved.
	ErrExhausted = errors.New("tag is exhausted")

	// ErrStrict: the tag is strict, and a call's requests are for trend tags only.
	// Nothing was reserved.
	ErrStrict = errors.New("a strict tag refuses such requests")

	// ErrBadTag: the tag's definition is out of bounds, see Tag.Check.
	ErrBadTag = problem.New(problem.Invalid, "bad tag definition")

	// ErrBelow: CreateTag would begin below IDs that a tag of that name issued
	// before it was removed, or may have issued before it was lost. The error
	// is a *BelowError.
	ErrBelow = fmt.Errorf("%w: first ID too low", ErrBadTag)

	// ErrOrder: a tag of that name has, or had, the other order. The error is
	// an *OrderError.
	ErrOrder = fmt.Errorf("%w: the order of a name cannot change", ErrBadTag)

	// ErrCorrupt: the stored value of the tag is not a readable counter, or
	// contradicts itself. Nothing was changed; an operator has to inspect it.
	ErrCorrupt = errors.New("corrupt entry")

	// ErrNoRoom: ReserveFirst found the register nearly full. Tags that exist
	// keep the room that is left.
	ErrNoRoom = problem.New(problem.StorageFull, "the register is nearly full, so templates make no new tags")

	// ErrChanged: another client raised the row since it was read. Nothing was
	// changed; the call may be retried.
	ErrChanged = errors.New("another client changed the row; retry")

	// ErrSetup: the database answers but cannot serve as a store: user,
	// password, privileges, table or columns are wrong, or it is read-only. The
	// message names the remedy. Nothing was changed; calls fail until an
	// administrator acts.
	ErrSetup = errors.New("database is not set up as a store")

	// ErrNoTable is the ErrSetup of a database without the table. The backend's
	// Migrate creates it.
	ErrNoTable = problem.Wrap(problem.NoTable, fmt.Errorf("%w: the table is missing", ErrSetup))
)

// BelowError is the ErrBelow of a tag.
type BelowError struct {
	Tag   string
	First int64 // the requested first ID
	Floor int64 // the lowest first ID allowed
}

func (e *BelowError) Error() string {
	return fmt.Sprintf("%v: %d, but tag %s may have issued IDs below %d before it was removed or lost", ErrBelow, e.First, e.Tag, e.Floor)
}

// Unwrap returns ErrBelow, which is an ErrBadTag.
func (e *BelowError) Unwrap() error { return ErrBelow }

// Problem is part of [problem.Problem].
func (e *BelowError) Problem() (problem.Kind, []any) {
	if e.Floor == math.MaxInt64 {
		return problem.UsedUp, nil
	}
	return problem.Below, []any{e.Floor}
}

// OrderError is the ErrOrder of a tag.
type OrderError struct {
	Tag       string
	Was, Want Order
}

func (e *OrderError) Error() string {
	return fmt.Sprintf("%v: %s is %s, not %s", ErrOrder, e.Tag, e.Was, e.Want)
}

// Unwrap returns ErrOrder, which is an ErrBadTag.
func (e *OrderError) Unwrap() error { return ErrOrder }

// Problem is part of [problem.Problem].
func (e *OrderError) Problem() (problem.Kind, []any) { return problem.OtherOrder, []any{e.Was} }

// EntryError is an ErrCorrupt of an entry that Store.Tags left out.
type EntryError struct {
	Tag string
	Err error
}

func (e *EntryError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *EntryError) Unwrap() error { return e.Err }

// TableError is an error of a database. Its text names the table, and the tag if
// there is one.
type TableError struct {
	Table, Tag string
	Err        error
}

func (e *TableError) Error() string {
	if e.Tag == "" {
		return fmt.Sprintf("table %s: %v", e.Table, e.Err)
	}
	return fmt.Sprintf("table %s, tag %s: %v", e.Table, e.Tag, e.Err)
}

// Unwrap returns Err.
func (e *TableError) Unwrap() error { return e.Err }

// ErrRegressed is wrapped by every [RegressionError].
var ErrRegressed = problem.New(problem.Regressed, "the register regressed")

// RegressionError reports a bucket that holds less than it did before, or was
// replaced. Nothing is granted until an administrator raises the counters: tag
// raise --all.
type RegressionError struct {
	Bucket      string
	Seen, Found uint64 // sequences of its stream
	Reason      string // set if the sequences do not show it

	// Claim is what stopped it, if that was only heard from another process.
	Claim Claim

	// Short is the number of IDs by which a raise was too small: with that many
	// more, the register would not look regressed. It is 0 if no raise was.
	Short int64
}

func (e *RegressionError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("%v: bucket %s %s", ErrRegressed, e.Bucket, e.Reason)
	}
	return fmt.Sprintf("%v: bucket %s is at sequence %d, was at %d", ErrRegressed, e.Bucket, e.Found, e.Seen)
}

// Unwrap returns [ErrRegressed].
func (e *RegressionError) Unwrap() error { return ErrRegressed }

// UnsafeTableError is the ErrSetup of a table that may lose rows in a crash, or
// that may be not be the counting table.
type UnsafeTableError struct {
	Kind string // as found, such as ENGINE=MEMORY, UNLOGGED or a view
	Want string // as required
}

func (e *UnsafeTableError) Error() string {
	return fmt.Sprintf("%v: the table is %s, which may lose granted ranges; it must be %s", ErrSetup, e.Kind, e.Want)
}

// Unwrap returns ErrSetup.
func (e *UnsafeTableError) Unwrap() error { return ErrSetup }

// UnsafeSettingError is a database setting that acknowledges commits before
// they are on disk. IDs can then be issued twice after a crash.
type UnsafeSettingError struct {
	Setting string
	Value   string
	Want    string
}

func (e *UnsafeSettingError) Error() string {
	return fmt.Sprintf("%s is %s, should be %s: the database can lose acknowledged commits in a crash", e.Setting, e.Value, e.Want)
}

// Problem is part of [problem.Problem].
func (e *UnsafeSettingError) Problem() (problem.Kind, []any) {
	return problem.UnsafeSetting, []any{e.Setting, e.Want}
}

// ErrSettingUnknown reports a setting that the database does not reveal, for
// example to a user without the right to read it.
var ErrSettingUnknown = problem.New(problem.UnknownSetting, "the database does not reveal a setting")
