// Package problem gives errors a kind, by which a command knows an exit code and a hint.
// Packages name the kind beside the text of an error, and know neither flags nor commands;
// one table in cmd/idworker knows those, and no packages.
package problem

import (
	"errors"
	"iter"
)

// Kind is what kind of problem an error is.
type Kind string

// Problem is an error of a kind. The values are what a hint needs, such as an address.
type Problem interface {
	error
	Problem() (kind Kind, values []any)
}

// New returns an error of a kind, as errors.New does.
func New(kind Kind, text string) error { return Wrap(kind, errors.New(text)) }

// Usage makes an error one of the command line: trying again is no use.
func Usage(err error) error { return Wrap(Invalid, err) }

// Wrap makes an error one of a kind. Its text stays.
func Wrap(kind Kind, err error) error { return &problem{err, kind} }

type problem struct {
	error
	kind Kind
}

// Problem is part of Problem.
func (p *problem) Problem() (Kind, []any) { return p.kind, nil }

// Unwrap returns what was wrapped.
func (p *problem) Unwrap() error { return p.error }

// In yields the problems within an error, the outermost first.
func In(err error) iter.Seq[Problem] {
	return func(yield func(Problem) bool) { visit(err, yield) }
}

// visit reports whether to go on.
func visit(err error, yield func(Problem) bool) bool {
	if p, ok := err.(Problem); ok && !yield(p) {
		return false
	}
	switch wrapping := err.(type) {
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

// Parts are the errors that errors.Join put together, or the one that is none of those; none
// for nil.
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
