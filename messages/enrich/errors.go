package enrich

import (
	"errors"
	"fmt"
)

var (
	// ErrConfig is wrapped by the errors of an enrichment that cannot work as configured,
	// or not with the streams as they are. Trying again does not help.
	ErrConfig = errors.New("bad enrichment")

	// ErrNoTarget is the [TargetError] of a target subject that no stream takes.
	ErrNoTarget = errors.New("no stream takes the target subject")

	// ErrNoBatches is the [TargetError] of a target stream that does not allow atomic
	// batches.
	ErrNoBatches = errors.New("the target stream does not allow atomic batches")

	// ErrAmbiguous says that nobody can tell whether events arrived in the target: somebody
	// else writes to it too and messages that would tell have been removed from it, or a
	// server has lost what it had acknowledged. What to do is an operator's decision.
	ErrAmbiguous = errors.New("cannot tell whether events arrived")
)

// TargetError says what is missing of the target, or what it does not allow. It matches
// [ErrConfig] and Err.
type TargetError struct {
	Err     error  // ErrNoTarget or ErrNoBatches
	Subject string // the target subject, Config.To
	Stream  string // name of the target stream; empty if there is none
}

// Error says what is wrong, and with which subject and stream.
func (e *TargetError) Error() string {
	if e.Stream == "" {
		return fmt.Sprintf("%v: %v %q", ErrConfig, e.Err, e.Subject)
	}
	return fmt.Sprintf("%v: %v, without which events could arrive twice: stream %s for the target subject %q",
		ErrConfig, e.Err, e.Stream, e.Subject)
}

// Unwrap returns ErrConfig and Err.
func (e *TargetError) Unwrap() []error { return []error{ErrConfig, e.Err} }

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
}
