package store

import (
	"fmt"

	"github.com/idworker/idworker/internal/problem"
)

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
