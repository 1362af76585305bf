package enrich

import (
	"errors"
	"fmt"

	"github.com/idworker/idworker/internal/problem"
)

var (
	// ErrConfig is wrapped by the errors of an enrichment that cannot work as
	// configured, or not with these streams. A retry does not help.
	ErrConfig = problem.New(problem.Invalid, "bad enrichment")

	// ErrUndecided is wrapped by the errors of an enrichment that stops because
	// its position has no proof. An operator decides, with [Resume].
	ErrUndecided = problem.New(problem.Undecided, "position of the enrichment unknown")

	// ErrUnproven is wrapped by the error of [Resume] if nothing contradicts
	// the operator's decision, but messages of the target that could are gone.
	ErrUnproven = problem.New(problem.Unproven, "target messages that show which events were enriched are gone")

	// ErrLost reports that the source removed events before they were read. It
	// stops an enrichment only with Config.OnLoss Stop.
	ErrLost = problem.New(problem.Undecided, "the source removed events before enrichment")

	// ErrAtWork is an error of [Retire]: an enricher has moved the record on.
	ErrAtWork = errors.New("an enricher is running")

	// ErrNoDeadLetters reports an event that cannot be stamped, without a
	// subject for dead letters.
	ErrNoDeadLetters = problem.New(problem.NoDeadLetters, "no dead-letter subject, so enrichment stops here")
)

// TargetError is an [ErrConfig]: no stream takes the target subject, or the
// stream allows no atomic batches.
type TargetError struct {
	Subject string // the target subject, Config.To
	Stream  string // name of the target stream; empty if there is none
}

// Error names the fault, the subject and the stream.
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

// undecided returns the error of an enrichment that stops for lack of evidence.
func (e *Enricher) undecided(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrUndecided}, args...)...)
}
