// Package joined takes apart what errors.Join put together.
package joined

import (
	"errors"
	"strings"
)

// Parts are the errors that were joined, or the one that is none of those; none for nil.
func Parts(err error) []error {
	var joined interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &joined) && isLines(err.Error(), joined.Unwrap()):
		return joined.Unwrap()
	}
	return []error{err}
}

// isLines reports whether a text is that of errors.Join.
func isLines(text string, all []error) bool {
	var lines []string
	for _, one := range all {
		lines = append(lines, one.Error())
	}
	return text == strings.Join(lines, "\n")
}
