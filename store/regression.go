package store

import (
	"fmt"

	"github.com/idworker/idworker/internal/problem"
)

// ErrRegressed is wrapped by every [RegressionError].
var ErrRegressed = problem.New(problem.Regressed, "the register regressed")

// RegressionError reports a bucket that holds less than it did before, or was
// replaced. Nothing is granted until an administrator raises the counters: tag
// raise --all.
type RegressionError struct {
	Bucket      string
	Seen, Found uint64 // sequences of its stream
	Reason      string // set if the sequences do not show it

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
