package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	walkLine  = regexp.MustCompile("^\\d+\\. `([^`]+)`: (.+?) — ")
	walkTotal = regexp.MustCompile(`^\d+ functions, \d+ files, \d+ switches`)
)

// TestWalks: docs/walks.md names functions that are where it says, and counts them.
func TestWalks(t *testing.T) {
	page, err := os.ReadFile("../../docs/walks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, walk := range strings.Split(string(page), "\n## ")[1:] {
		stated, lines := "", 0
		functions, files := make(map[string]bool), make(map[string]bool)
		for line := range strings.Lines(walk) {
			if total := walkTotal.FindString(line); total != "" {
				stated = total
			}
			if m := walkLine.FindStringSubmatch(line); m != nil {
				declared := functionsOf(t, m[1])
				files[m[1]] = true
				lines++
				for name := range strings.SplitSeq(m[2], ", ") {
					if name = strings.Trim(name, "`"); !declared[name] {
						t.Errorf("%s has no function %s", m[1], name)
					}
					functions[m[1]+name] = true
				}
			}
		}
		if total := fmt.Sprintf("%d functions, %d files, %d switches", len(functions), len(files), lines-1); total != stated {
			t.Errorf("%.40q has %s, and states %q", walk, total, stated)
		}
	}
}

// functionsOf returns the functions of a file of this module; methods with their type.
func functionsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	declared := make(map[string]bool)
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
			declared[f.Name.Name] = true
		} else if ok {
			receiver := strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*")
			declared[receiver+"."+f.Name.Name] = true
		}
	}
	return declared
}
