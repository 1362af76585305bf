package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	files, err := tracked(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	var f findings
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // deleted, not yet committed
		}
		f.file(filepath.ToSlash(name), string(text))
	}
	for _, fault := range f.faults {
		fmt.Println(fault)
	}
	if len(f.faults) > 0 {
		os.Exit(1)
	}
}

// tracked are the files that Git has, or would add.
func tracked(paths []string) ([]string, error) {
	args := append([]string{"ls-files", "--cached", "--others", "--exclude-standard", "--"}, paths...)
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	files := strings.Fields(string(out))
	slices.Sort(files)
	return slices.Compact(files), nil
}

// findings are the faults of the files that were read.
type findings struct {
	faults []string
	typeAt map[string]string // exported types, by name
}

func (f *findings) fault(at, format string, args ...any) {
	f.faults = append(f.faults, at+": "+fmt.Sprintf(format, args...))
}

func (f *findings) file(name, text string) {
	switch {
	case strings.HasPrefix(name, "testing/prose/"): // has the words that break the rules
	case strings.HasSuffix(name, ".go"):
		f.goFile(name, text)
	case strings.HasSuffix(name, ".md"):
		f.page(name, text)
	case slices.Contains([]string{".conf", ".yml", ".yaml", ".html", ".txt", ".js", ".pml", ".sh"}, filepath.Ext(name)), name == "Makefile":
		for n, line := range strings.Split(text, "\n") {
			f.text(fmt.Sprintf("%s:%d", name, n+1), line)
		}
	}
}

// text checks what people read, wherever it stands.
func (f *findings) text(at, text string) {
	for _, t := range terms {
		if found := t.others.FindString(text); found != "" {
			f.fault(at, "%q: the glossary has %q", found, t.name)
		}
	}
	if found := human.FindString(text); found != "" {
		f.fault(at, "%q: only people know, believe, say, tell and want", found)
	}
}

var (
	code     = regexp.MustCompile("`[^`]*`")
	link     = regexp.MustCompile(`\]\([^)]*\)`)
	isItem   = regexp.MustCompile(`^(?:[-*]|\d+\.) `)
	glossary = regexp.MustCompile(`(?ms)^## Glossary$.*?(?:^## |\z)`)
)

// page checks the paragraphs of a page outside of code, and that the glossary has
// the terms of the rules.
func (f *findings) page(name, text string) {
	if name == "docs/concepts.md" {
		for _, t := range terms {
			if !strings.Contains(glossary.FindString(text), "\n| **"+t.name+"** |") {
				f.fault(name, "the glossary has no term %q, which a rule in testing/prose prefers", t.name)
			}
		}
	}
	fenced, paragraph, start := false, "", 0
	end := func() {
		f.text(fmt.Sprintf("%s:%d", name, start+1), link.ReplaceAllString(code.ReplaceAllString(paragraph, "X"), "]"))
		paragraph = ""
	}
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		isFence := strings.HasPrefix(line, "```")
		if isFence || line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "|") || isItem.MatchString(line) {
			end()
		}
		if isFence {
			fenced = !fenced
		} else if !fenced && line != "" {
			if paragraph == "" {
				start = n
			}
			paragraph += line + " "
		}
	}
	end()
}
