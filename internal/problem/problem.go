// Package problem gives errors a kind, from which a command derives an exit
// code and a hint. Packages state the kind beside the text of an error, without
// reference to flags or commands. One table in cmd/idworker maps kinds to flags
// and commands, without reference to packages.
package problem

import (
	"errors"
	"iter"
)

// Kind is the kind of problem of an error.
type Kind string

// Problem is an error with a kind. The values are for the hint, such as an
// address.
type Problem interface {
	error
	Problem() (kind Kind, values []any)
}

// New returns an error of a kind, as errors.New does.
func New(kind Kind, text string) error { return Wrap(kind, errors.New(text)) }

// Usage makes err a usage error of the command line; do not retry.
func Usage(err error) error { return Wrap(Invalid, err) }

// Wrap gives err a kind. Its text stays.
func Wrap(kind Kind, err error) error { return &problem{err, kind} }

type problem struct {
	error
	kind Kind
}

// Problem is part of Problem.
func (p *problem) Problem() (Kind, []any) { return p.kind, nil }

// Unwrap returns the wrapped error.
func (p *problem) Unwrap() error { return p.error }

// In yields the problems within an error, the outermost first.
func In(err error) iter.Seq[Problem] {
	return func(yield func(Problem) bool) { visit(err, yield) }
}

// visit reports whether to continue.
func visit(err error, yield func(Problem) bool) bool {
	if p, ok := err.(Problem); ok && !yield(p) { //nolint:errorlint // goes through the whole tree, of which errors.As finds one
		return false
	}
	switch wrapping := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() error }:
		return visit(wrapping.Unwrap(), yield)
	case interface{ Unwrap() []error }:
		for _, one := range wrapping.Unwrap() {
			if !visit(one, yield) {
				return false
			}
		}
	}
	return true
}

// Parts returns the errors that errors.Join combined, or err alone if it is not
// joined; none for nil.
func Parts(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) && err.Error() == errors.Join(joined.Unwrap()...).Error() {
		return joined.Unwrap()
	}
	return []error{err}
}
