package main

import (
	"strings"
	"testing"
)

// TestFaults: a file with one fault of each kind has exactly these faults.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, fault string }{
		{"a.go", "package a\n\n// Nobody reads it.\nvar x int\n", `"Nobody"`},
		{"a.go", "package a\n\n// It is there. What it\n// does is plain.\nvar x int\n", `What it does`},
		{"a/doc.go", strings.Repeat("// A line.\n", 61) + "package a\n", "62 lines, at most 60"},
		{"a.go", "package a\n\nfunc f() { log.Warn(\"one two three four \"+\"five six seven\") }\n", "7 words, at most 6"},
		{"a.go", "package a\n\nvar err = errors.New(\"done by whoever came\")\n", `"whoever"`},
		{"a.go", "package a\n\nvar c struct {\n\tF int `help:\"Show it anew.\"`\n}\n", `"anew"`},
		{"a.md", "It starts " + strings.Repeat("very ", 30) + "late.\n", "a sentence of 33 words"},
		{"README.md", strings.Repeat("\n", 151), "151 lines, at most 150"},
		{"a.md", "## Glossary\n\n" + strings.Repeat("| **term** | text |\n", 26), "26 terms"},
		{"a.yml", "summary: retrying is no use\n", `"no use"`},
	} {
		var r report
		r.file(c.name, c.text)
		if len(r.faults) != 1 || !strings.Contains(r.faults[0], c.fault) {
			t.Errorf("%s: %q, want one fault with %q", c.name, r.faults, c.fault)
		}
	}
}

// TestNoFaults: code, quotes of code, directives and questions break no rule.
func TestNoFaults(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a.go":      "package a\n\n// Why? What is left?\n//\n//nolint:nobody // generated\nvar x = \"nobody\"\n",
		"a_test.go": "package a\n\nfunc f() { t.Error(\"one two three four five six seven\") }\n",
		"a.md":      "The bucket `nobody` is a name.\n\n```\nwhoever\n```\n",
	} {
		var r report
		r.file(name, text)
		if len(r.faults) > 0 {
			t.Errorf("%s: %q", name, r.faults)
		}
	}
}

// TestMeasures counts words, rates and wide lines.
func TestMeasures(t *testing.T) {
	t.Parallel()
	var r report
	r.file("a.go", "package a\n\n// f asks for what it needs, and "+strings.Repeat("x", 60)+"\n// returns.\nfunc f() {}\n")
	if r.commentWords != 9 || r.counts[0] != 1 || r.counts[2] != 1 || r.commentLines != 2 || r.wide != 1 {
		t.Errorf("%d words, counts %v, %d of %d lines wide", r.commentWords, r.counts, r.wide, r.commentLines)
	}
}
