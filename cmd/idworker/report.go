package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// output is where a command writes its results: as text for people or, with --json, as one
// JSON object for programs. No other file handles the difference.
//
// The names of JSON's fields are stable, see docs/command-line.md. IDs are strings, because a
// number of JavaScript holds only those below 2^53.
type output struct {
	io.Writer
	JSON bool // for programs
}

// report is a result. Tags of its fields name what JSON shows of it.
type report interface {
	// Text writes it for people.
	Text(io.Writer) error
}

// Print prints a result.
func (o output) Print(r report) error {
	if o.JSON {
		return o.encode(r)
	}
	return r.Text(o.Writer)
}

func (o output) encode(v any) error {
	encoder := json.NewEncoder(o.Writer)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// list is a result of which one part after the other becomes known. As text each is a line, printed
// at once; JSON follows in the end.
type list[T fmt.Stringer] struct {
	to    output
	name  string
	items []T
	err   error // of printing
}

// newList begins a list, which JSON has as the field of that name.
func newList[T fmt.Stringer](to output, name string) *list[T] {
	return &list[T]{to: to, name: name, items: []T{}}
}

// Add adds a part.
func (l *list[T]) Add(item T) {
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
func (l *list[T]) End(failed error) error {
	if l.to.JSON {
		l.err = l.to.encode(map[string][]T{l.name: l.items})
	}
	return errors.Join(failed, l.err)
}

// failure is an error as JSON has it.
type failure struct {
	Message  string `json:"error"`
	ExitCode int    `json:"exit_code"`
}

// Text writes it for people.
func (f failure) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "idworker: %s\n", f.Message)
	return err
}
