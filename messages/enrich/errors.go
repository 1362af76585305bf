package enrich

import (
	"errors"
	"fmt"

	"github.com/idworker/idworker/internal/problem"
)

var (
	// ErrConfig is wrapped by the errors of an enrichment that cannot work as configured,
	// or not with the streams as they are. Trying again does not help.
	ErrConfig = problem.New(problem.Invalid, "bad enrichment")

	// ErrNoTarget is the [TargetError] of a target subject that no stream takes.
	ErrNoTarget = errors.New("no stream takes the target subject")

	// ErrNoBatches is the [TargetError] of a target stream that does not allow atomic
	// batches.
	ErrNoBatches = errors.New("the target stream does not allow atomic batches")

	// ErrUndecided is wrapped by the errors of an enrichment that stands still because
	// nothing proves how far it is. An operator decides, with [Resume].
	ErrUndecided = problem.New(problem.Undecided, "cannot tell how far the enrichment is")

	// ErrUnproven is wrapped by the error of [Resume] if nothing contradicts what the operator
	// decided, but messages of the target that could are gone.
	ErrUnproven = problem.New(problem.Unproven, "messages of the target that would say which events were enriched are gone")

	// ErrLost says that the source removed events before they were read. Only with
	// Config.OnLoss Stop does that keep an enrichment from going on.
	ErrLost = problem.New(problem.Undecided, "the source removed events before they were enriched")

	// ErrNoDeadLetters says that an event cannot be stamped, and that there is no subject for
	// dead letters.
	ErrNoDeadLetters = problem.New(problem.NoDeadLetters, "there is no dead-letter subject, so nothing behind it is enriched")
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

// Problem is part of [problem.Problem].
func (e *TargetError) Problem() (problem.Kind, []any) {
	if e.Stream == "" {
		return problem.NoTarget, nil
	}
	return problem.NoBatches, []any{e.Stream}
}

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
}

// undecided is the error of an enrichment that stands still for want of evidence.
func (e *Enricher) undecided(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrUndecided}, args...)...)
}
