package main

import (
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"github.com/idworker/idworker/cmd/internal/completion"
	"github.com/idworker/idworker/cmd/internal/explain"
)

// helpCmd shows what --help shows.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command; all of them without."`
}

// Run prints the help of the command.
func (h *helpCmd) Run(app *kong.Kong) error {
	about, err := kong.Trace(app, append(h.Command, "--help"))
	if err == nil {
		err = about.Error
	}
	if err != nil {
		return explain.Usage(err)
	}
	return about.PrintUsage(false)
}

// versionCmd prints the version.
type versionCmd struct{ printFlags }

// Run prints it.
func (versionCmd) Run(out output) error { return out.Print(versionReport{version}) }

type versionReport struct {
	Version string `json:"version"`
}

// Text is part of report.Report.
func (v versionReport) Text(w io.Writer) error {
	_, err := fmt.Fprintln(w, v.Version)
	return err
}

// manCmd prints the manual page.
type manCmd struct{}

// Run prints it.
func (manCmd) Run(app *kong.Kong, out output) error {
	return writeManual(out, app.Model, version)
}

// completionCmd prints a shell's script.
type completionCmd struct {
	Shell string `arg:"" name:"bash|zsh|fish" enum:"bash,zsh,fish" help:"Which shell."`
}

// Run prints it.
func (c *completionCmd) Run(out output) error {
	_, err := io.WriteString(out, completion.Scripts[c.Shell])
	return err
}

// completeCmd is what the scripts call.
type completeCmd struct {
	Words []string `arg:"" optional:""`
}

// Run prints a line for each candidate.
func (c *completeCmd) Run(app *kong.Kong, out output) error {
	return completion.Write(out, app.Model, c.Words)
}
