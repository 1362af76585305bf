package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"
)

// version is the semantic version of this source tree; see the CHANGELOG.
const version = "0.2.0"

// versionCmd prints the version.
type versionCmd struct{ printFlags }

// Run prints the version, and the commit of the source.
func (versionCmd) Run(out output) error { return out.Print(buildOf(readBuildInfo())) }

// build describes the source that the binary was built from. Commit and Date
// are empty for a build outside a git checkout.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"` // of the commit, RFC 3339
	// Modified reports changes that were not committed.
	Modified bool `json:"modified,omitempty"`
}

// readBuildInfo returns the stamps that the Go command left in the binary.
func readBuildInfo() []debug.BuildSetting {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return nil
	}
	return info.Settings
}

func buildOf(stamps []debug.BuildSetting) build {
	b := build{Version: version}
	for _, s := range stamps {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is the build for people: 0.2.0 (commit 8e4c0cc, 2026-11-25).
func (b build) String() string {
	if b.Commit == "" {
		return b.Version
	}
	const short = 7
	commit, date := b.Commit[:min(short, len(b.Commit))], b.Date
	date, _, _ = strings.Cut(date, "T")
	if b.Modified {
		commit += ", modified"
	}
	return fmt.Sprintf("%s (commit %s, %s)", b.Version, commit, date)
}

// Text implements report.
func (b build) Text(w io.Writer) error {
	_, err := fmt.Fprintln(w, b)
	return err
}
