package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// output receives the results of a command: as text for people or, with --json,
// as one JSON object. No other file handles the difference.
//
// JSON field names are stable, see docs/command-line.md. IDs are strings,
// because JavaScript numbers are exact only below 2^53.
type output struct {
	io.Writer
	JSON bool // for programs
}

// report is a result. Its fields' tags define the JSON.
type report interface {
	// Text writes the report for people.
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

// list is a result whose items arrive gradually. As text, each is printed at
// once; JSON is printed at the end.
type list[T fmt.Stringer] struct {
	to    output
	name  string
	items []T
	err   error // of printing
}

// newList begins a list, which is the field name in JSON.
func newList[T fmt.Stringer](to output, name string) *list[T] {
	return &list[T]{to: to, name: name, items: []T{}}
}

// Add adds an item.
func (l *list[T]) Add(item T) {
	if l.to.JSON {
		l.items = append(l.items, item)
		return
	}
	if l.err == nil {
		_, l.err = fmt.Fprintln(l.to, item)
	}
}

// End ends the list, and joins the error of the work with that of printing.
// JSON has all items that were added, also after an error.
func (l *list[T]) End(failed error) error {
	if l.to.JSON {
		l.err = l.to.encode(map[string][]T{l.name: l.items})
	}
	return errors.Join(failed, l.err)
}

// errorReport is an error in JSON.
type errorReport struct {
	Message  string `json:"error"`
	ExitCode int    `json:"exit_code"`
}

// Text writes the error for people.
func (f errorReport) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "idworker: %s\n", f.Message)
	return err
}
