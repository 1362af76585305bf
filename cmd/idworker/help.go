package main

import (
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"github.com/idworker/idworker/internal/problem"
)

// helpCmd prints the same as --help.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"Command to describe (default: all)."`
}

// Run prints the help of the command.
func (h *helpCmd) Run(app *kong.Kong) error {
	about, err := kong.Trace(app, append(h.Command, "--help"))
	if err == nil {
		err = about.Error
	}
	if err != nil {
		return problem.Usage(err)
	}
	return about.PrintUsage(false)
}

// versionCmd prints the version.
type versionCmd struct{ printFlags }

// Run prints the version.
func (versionCmd) Run(out output) error { return out.Print(versionReport{version}) }

type versionReport struct {
	Version string `json:"version"`
}

// Text implements report.
func (v versionReport) Text(w io.Writer) error {
	_, err := fmt.Fprintln(w, v.Version)
	return err
}
