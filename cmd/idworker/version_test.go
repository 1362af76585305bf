package main

import (
	"runtime/debug"
	"testing"
)

// TestVersionNamesCommit: the version shows commit and date, where the binary
// has them.
func TestVersionNamesCommit(t *testing.T) {
	t.Parallel()
	stamps := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{
			{Key: "CGO_ENABLED", Value: "0"},
			{Key: "vcs.revision", Value: "8e4c0cc3b0e4a3f6f6f0b6c5a5d0d1c2b3a49587"},
			{Key: "vcs.time", Value: "2026-11-25T07:12:30Z"},
			{Key: "vcs.modified", Value: modified},
		}
	}
	for want, stamps := range map[string][]debug.BuildSetting{
		version: nil,
		version + " (commit 8e4c0cc, 2026-11-25)":           stamps("false"),
		version + " (commit 8e4c0cc, modified, 2026-11-25)": stamps("true"),
	} {
		if got := buildOf(stamps).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
