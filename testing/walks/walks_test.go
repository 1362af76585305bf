package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/idworker/idworker/testing/tier"
)

// TestPage: docs/walks.md and a new run differ in no number of functions or
// files by more than a tenth. On a machine that is too slow for its timers these
// join the walk, so there are three runs.
func TestPage(t *testing.T) {
	tier.All(t)
	page, err := os.ReadFile("../../docs/walks.md")
	if err != nil {
		t.Fatal(err)
	}
	b, err := build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range walks {
		stated := regexp.MustCompile(`\n## ` + w.title + `\n\n(\d+) functions, (\d+) files`).FindSubmatch(page)
		if stated == nil {
			t.Errorf("docs/walks.md has no walk %q; run: make walks", w.title)
			continue
		}
		functionsStated, _ := strconv.Atoi(string(stated[1]))
		filesStated, _ := strconv.Atoi(string(stated[2]))
		for left := 2; ; left-- {
			functions, err := b.functions(w)
			files, _ := byFile(functions)
			if err == nil && !differ(functionsStated, len(functions)) && !differ(filesStated, len(files)) {
				break
			}
			if left == 0 {
				t.Errorf("%s: %d functions, %d files (error: %v), but docs/walks.md has %d and %d; run: make walks",
					w.title, len(functions), len(files), err, functionsStated, filesStated)
				break
			}
		}
	}
}

// differ reports whether two numbers differ by more than a tenth.
func differ(a, b int) bool { return 10*max(a, b)-10*min(a, b) > max(a, b) }

func TestDiffer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b int
		want bool
	}{{100, 100, false}, {100, 90, false}, {90, 100, false}, {100, 89, true}, {89, 100, true}, {0, 1, true}} {
		if got := differ(c.a, c.b); got != c.want {
			t.Errorf("%d and %d: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

const code = `package p

type list[T any] struct{ items []T }

func (l *list[T]) add(item T) { l.items = append(l.items, item) }

type adder interface{ add(int) }

type reader struct{ to adder }

func (r reader) read() {
	last()
	func() {
		r.to.add(1)
	}()
}

func last() {}

func entry() { go reader{}.read() }

func apart() { entry() }
`

// parsed is the source above, as that of a module m.
func parsed(t *testing.T) *source {
	t.Helper()
	s := newSource()
	file, err := s.parse("m", "m/p/p.go", []byte(code))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := new(types.Config).Check("m/p", s.set, []*ast.File{file}, s.info); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCount: a function has the largest counter of its blocks and of those of
// its closures; nine tenths put it on the walk.
func TestCount(t *testing.T) {
	t.Parallel()
	s := parsed(t)
	counters, err := s.count(`mode: atomic
m/p/p.go:5.31,5.65 1 90
m/p/p.go:11.24,13.9 2 1
m/p/p.go:13.9,15.3 1 100
m/p/p.go:20.14,20.34 1 89
m/p/p.go:22.14,22.25 1 0
`)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]bool)
	for f := range atLeast(counters, 100) {
		got[f.String()] = true
	}
	if want := (map[string]bool{"p/p.go list.add": true, "p/p.go reader.read": true}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("on the walk: %v, want %v", got, want)
	}
	if n := len(atLeast(counters, 1)); n != 3 {
		t.Errorf("%d functions ran, want 3", n)
	}
}

// TestCountOfOtherSource: an empty profile and those of other sources are errors.
func TestCountOfOtherSource(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "m/p/q.go:1.1,1.2 1 1", "m/p/p.go:99.1,99.2 1 1", "m/p/p.go:1"} {
		if _, err := parsed(t).count(line); err == nil {
			t.Errorf("%q is accepted", line)
		}
	}
}

// TestOrder: functions stand in the order of calls from the entry, through
// interfaces and closures; others follow, and those that did not run are left
// out.
func TestOrder(t *testing.T) {
	t.Parallel()
	s := parsed(t)
	on := make(map[*function]bool)
	for _, f := range s.functions {
		on[f] = f.name != "last"
	}
	order, err := s.inOrder(on, []string{"p/p.go entry"})
	if err != nil {
		t.Fatal(err)
	}
	_, names := byFile(order)
	if got := fmt.Sprint(names["p/p.go"]); got != "[entry reader.read list.add apart]" {
		t.Errorf("order %s", got)
	}
	if _, err := s.inOrder(on, []string{"p/p.go gone"}); err == nil {
		t.Error("an entry that does not exist is accepted")
	}
}
