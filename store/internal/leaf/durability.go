package leaf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/idworker/idworker/store"
)

// Setting is a setting of a database on which it depends whether commits are on disk when they
// are acknowledged.
type Setting struct {
	Name string
	Safe []string // the values that are safe, the usual one first
}

// Check returns a store.UnsafeSettingError unless the value is safe.
func (s Setting) Check(value string) error {
	if slices.Contains(s.Safe, value) {
		return nil
	}
	return &store.UnsafeSettingError{Setting: s.Name, Value: value, Want: s.Safe[0]}
}

// Unknown is the error for a setting that the database does not tell.
func (s Setting) Unknown(err error) error {
	return fmt.Errorf("%w: %s: %w", store.ErrSettingUnknown, s.Name, err)
}

// CheckSettings reads each setting with read and joins what is wrong: unsafe settings, and
// those that the database does not tell. Any other error means that it does not answer, and is
// returned alone.
func CheckSettings(settings []Setting, read func(Setting) (string, error)) error {
	var wrong []error
	for _, setting := range settings {
		value, err := read(setting)
		if err == nil {
			err = setting.Check(value)
		} else if !errors.Is(err, store.ErrSettingUnknown) {
			return err
		}
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}
