package store

import (
	"fmt"

	"github.com/idworker/idworker/internal/problem"
)

// ErrRegressed is wrapped by every [RegressionError].
var ErrRegressed = problem.New(problem.Regressed, "the register regressed")

// RegressionError reports that a bucket holds less than was seen in it, or is another one.
// Nothing is granted until an administrator decides from where to count on: tag raise --all.
type RegressionError struct {
	Bucket      string
	Seen, Found uint64 // sequences of its stream
	Reason      string // if the sequences are not what shows it
}

func (e *RegressionError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("%v: bucket %s %s", ErrRegressed, e.Bucket, e.Reason)
	}
	return fmt.Sprintf("%v: bucket %s is at sequence %d, was at %d", ErrRegressed, e.Bucket, e.Found, e.Seen)
}

// Unwrap makes it an [ErrRegressed].
func (e *RegressionError) Unwrap() error { return ErrRegressed }
