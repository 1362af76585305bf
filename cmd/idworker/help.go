package main

import (
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
