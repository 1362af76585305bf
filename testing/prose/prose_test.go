package main

import (
	"strings"
	"testing"
)

// TestFaults: a file with one fault of each kind has exactly this fault.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, fault string }{
		{"a.go", "package a\n\n// The range is\n// burned.\nvar x int\n", `a.go:3: "burned": the glossary has "burnt"`},
		{"a.go", "package a\n\n// It is there. What it\n// does is plain.\nvar x int\n", `What it does is plain`},
		{"a_test.go", "package a\n\n// The loader does not\n// know its tags.\nvar x int\n", `"loader does not know"`},
		{"a.go", "package a\n\nfunc f() { log.Warn(\"no \"+\"machine ID\") }\n", `"machine ID"`},
		{"a.go", "package a\n\nvar err = errors.New(\"no machine ID\")\n", `"machine ID"`},
		{"a.go", "package a\n\nvar err = problem.New(Kind, \"no machine ID\")\n", `"machine ID"`},
		{"a.go", "package a\n\nvar c struct {\n\tF int `help:\"The machine ID.\"`\n}\n", `"machine ID"`},
		{"a.go", "package a\n\ntype (\n\tT int\n\tT string\n)\n", "type T is also at a.go:4"},
		{"a.go", "package a\n\n// A page wants an answer.\nvar x int\n", `"page wants"`},
		{"a.md", "# A\n\n- Loaders\n  tell it.\n", `a.md:3: "Loaders tell"`},
		{"a.md", "| a cell | the store said |\n", `"store said"`},
		{"a.yml", "summary: no machine ID\n", `"machine ID"`},
		{"docs/concepts.md", "## Glossary\n\n| **buffer** | text |\n| **burnt** | text |\n| **dead letter** | text |\n| **enricher** | text |\n| **fence** | text |\n" +
			"| **installation** | text |\n| **instance** | text |\n| **load event** | text |\n| **parked** | text |\n| **segment** | text |\n\n## More\n\n| **worker ID** | text |\n",
			`no term "worker ID"`},
	} {
		var f findings
		f.file(c.name, c.text)
		if len(f.faults) != 1 || !strings.Contains(f.faults[0], c.fault) {
			t.Errorf("%s: %q, want one fault with %q", c.name, f.faults, c.fault)
		}
	}
}

// TestNoFaults: code, directives, questions, people, and strings of tests break no
// rule.
func TestNoFaults(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a.go":      "package a\n\n// Why? What is left? An operator knows, and a request wants IDs. It is known.\n//\n//nolint:burned // generated\nvar x = \"burned\"\n",
		"b.go":      "package a\n\ntype (\n\tConfig int\n\tT = x.T\n\tt int\n)\n\ntype (\n\tConfig int\n\tT = y.T\n\tt int\n)\n",
		"a_test.go": "package a\n\nfunc f() { t.Error(\"it says\") }\n",
		"a.md":      "The flag `machine ID` is a name, and so is [a](node ID).\n\n```\nburned\n```\n\nRestart the server.\n\nTell an operator.\n",
	} {
		var f findings
		f.file(name, text)
		if len(f.faults) > 0 {
			t.Errorf("%s: %q", name, f.faults)
		}
	}
}
