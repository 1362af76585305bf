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

	// ErrUndecided is wrapped by the errors of an enrichment that stands still because
	// nothing proves how far it is. An operator decides, with [Resume].
	ErrUndecided = problem.New(problem.Undecided, "position of the enrichment unknown")

	// ErrUnproven is wrapped by the error of [Resume] if nothing contradicts what the operator
	// decided, but messages of the target that could are gone.
	ErrUnproven = problem.New(problem.Unproven, "target messages that show which events were enriched are gone")

	// ErrLost says that the source removed events before they were read. Only with
	// Config.OnLoss Stop does that keep an enrichment from going on.
	ErrLost = problem.New(problem.Undecided, "the source removed events before enrichment")

	// ErrAtWork is an error of [Retire]: an enricher has moved the record on.
	ErrAtWork = errors.New("an enricher is running")

	// ErrNoDeadLetters says that an event cannot be stamped, and that there is no subject for
	// dead letters.
	ErrNoDeadLetters = problem.New(problem.NoDeadLetters, "no dead-letter subject, so enrichment stops here")
)

// TargetError is an [ErrConfig]: no stream takes the target subject, or the stream that does
// allows no atomic batches.
type TargetError struct {
	Subject string // the target subject, Config.To
	Stream  string // name of the target stream; empty if there is none
}

// Error says what is wrong, and with which subject and stream.
func (e *TargetError) Error() string {
	if e.Stream == "" {
		return fmt.Sprintf("%v: no stream takes target subject %q", ErrConfig, e.Subject)
	}
	return fmt.Sprintf("%v: stream %s of target subject %q does not allow atomic batches, so events could arrive twice",
		ErrConfig, e.Stream, e.Subject)
}

// Unwrap returns ErrConfig.
func (e *TargetError) Unwrap() error { return ErrConfig }

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
