// Package report is how commands print what they have found: as text for people or, with
// --json, as one JSON object for programs. There is no other place that knows the difference.
//
// The names of JSON's fields are stable, see docs/command-line.md. IDs are strings, because a
// number of JavaScript holds only those below 2^53. In format.go are numbers for people.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Printer is where a command writes its results.
type Printer struct {
	io.Writer
	JSON bool // for programs
}

// Report is a result.
type Report interface {
	// Text writes it for people. What JSON shows of it is for its tags to say.
	Text(io.Writer) error
}

// Print prints a result.
func (p Printer) Print(r Report) error {
	if p.JSON {
		return p.encode(r)
	}
	return r.Text(p.Writer)
}

func (p Printer) encode(v any) error {
	encoder := json.NewEncoder(p.Writer)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// List is a result of which one part after the other becomes known. As text each is a line, printed
// at once; JSON follows in the end.
type List[T fmt.Stringer] struct {
	to    Printer
	name  string
	items []T
	err   error // of printing
}

// NewList begins a list, which JSON has as the field of that name.
func NewList[T fmt.Stringer](to Printer, name string) *List[T] {
	return &List[T]{to: to, name: name, items: []T{}}
}

// Add adds a part.
func (l *List[T]) Add(item T) {
	if l.to.JSON {
		l.items = append(l.items, item)
		return
	}
	if l.err == nil {
		_, l.err = fmt.Fprintln(l.to, item)
	}
}

// End ends the list, and returns what went wrong with the work beside what went wrong with printing.
// JSON has all that was added, however it ended.
func (l *List[T]) End(failed error) error {
	if l.to.JSON {
		l.err = l.to.encode(map[string][]T{l.name: l.items})
	}
	return errors.Join(failed, l.err)
}

// Failure is an error as JSON has it.
type Failure struct {
	Message  string `json:"error"`
	ExitCode int    `json:"exit_code"`
}

// Text writes it for people.
func (f Failure) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "idworker: %s\n", f.Message)
	return err
}
