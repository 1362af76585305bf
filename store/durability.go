package store

import (
	"fmt"

	"github.com/idworker/idworker/internal/problem"
)

// UnsafeTableError is the ErrSetup of a table that forgets in a crash, or that may not be the
// one in which is counted.
type UnsafeTableError struct {
	Kind string // what it is, such as ENGINE=MEMORY, UNLOGGED or a view
	Want string // what it has to be
}

func (e *UnsafeTableError) Error() string {
	return fmt.Sprintf("%v: the table is %s, which may lose granted ranges; it must be %s", ErrSetup, e.Kind, e.Want)
}

// Unwrap makes it an ErrSetup.
func (e *UnsafeTableError) Unwrap() error { return ErrSetup }

// UnsafeSettingError is a setting of a database with which it acknowledges commits before they
// are on disk. IDs can then be handed out twice after a crash.
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

// ErrSettingUnknown is that the database does not tell one of its settings, such as to a user
// who may not read it.
var ErrSettingUnknown = problem.New(problem.UnknownSetting, "the database does not reveal a setting")
