package pages

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// read returns the README and all pages.
func read(t *testing.T) (pages []Document) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/proofs/*.md", "docs/zh/*.md"} {
		files, err := filepath.Glob(filepath.Join(repository, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			pages = append(pages, parse(t, file))
		}
	}
	if len(pages) < 10 {
		t.Fatalf("only %d pages", len(pages))
	}
	return pages
}

func parse(t *testing.T, file string) Document {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	name, err := filepath.Rel(repository, file)
	if err != nil {
		t.Fatal(err)
	}
	return Parse(filepath.ToSlash(name), string(data))
}

// TestLinks: the targets of links exist, down to the heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, p := range read(t) {
		for _, l := range p.Links {
			u, err := url.Parse(l.Target)
			if err != nil {
				t.Errorf("%s:%d: %v", p.Name, l.Line, err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			checked++
			at := filepath.Join(repository, p.Name)
			if u.Path != "" {
				at = filepath.Join(filepath.Dir(at), filepath.FromSlash(u.Path))
			}
			if _, err := os.Stat(at); err != nil {
				t.Errorf("%s:%d: %s: there is no such file", p.Name, l.Line, l.Target)
				continue
			}
			if u.Fragment != "" && !slices.Contains(parse(t, at).Anchors, u.Fragment) {
				t.Errorf("%s:%d: %s: there is no such heading", p.Name, l.Line, l.Target)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d links", checked)
	}
}

// TestIndex: each page of docs is in the index.
func TestIndex(t *testing.T) {
	t.Parallel()
	index := parse(t, filepath.Join(repository, "docs", "README.md"))
	for _, p := range read(t) {
		name, ok := strings.CutPrefix(p.Name, "docs/")
		if !ok || name == "README.md" || strings.Contains(name, "/") {
			continue
		}
		if !slices.ContainsFunc(index.Links, func(l Link) bool { return l.Target == name }) {
			t.Errorf("docs/README.md does not link to %s", name)
		}
	}
}

// TestTables: docs/stores.md shows the tables that serve --migrate creates.
func TestTables(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(repository, "docs", "stores.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"mysql.go", "postgres.go"} {
		code, err := os.ReadFile(filepath.Join(repository, "store", "sql", file))
		if err != nil {
			t.Fatal(err)
		}
		create := regexp.MustCompile("(?s)CREATE TABLE IF NOT EXISTS {table} (.*?)`").FindSubmatch(code)
		if create == nil {
			t.Errorf("%s has no CREATE TABLE", file)
		} else if !strings.Contains(oneLine(page), oneLine(create[1])+";") {
			t.Errorf("docs/stores.md does not show the table of %s", file)
		}
	}
}

func oneLine(text []byte) string { return strings.Join(strings.Fields(string(text)), " ") }

// TestReferences: the pages that code, settings and messages refer to are
// there, and the sections that they name.
func TestReferences(t *testing.T) {
	t.Parallel()
	found := 0
	err := filepath.WalkDir(repository, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(made, d.Name()) {
			return filepath.SkipDir
		}
		if !slices.Contains([]string{".go", ".conf", ".yml", ".pml"}, filepath.Ext(file)) {
			return nil
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, m := range reference.FindAllStringSubmatch(string(data), -1) {
			found++
			at := filepath.Join(repository, m[2])
			if _, err := os.Stat(at); err != nil {
				t.Errorf("%s: there is no %s", file, m[2])
				continue
			}
			if m[1] != "" && !slices.ContainsFunc(parse(t, at).Anchors, func(anchor string) bool {
				return anchor == strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
			}) {
				t.Errorf("%s: %s has no section %q", file, m[2], m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 10 {
		t.Errorf("only %d references", found)
	}
}

// reference matches text like "see Restore in docs/backup-restore.md".
var reference = regexp.MustCompile(`(?:\bsee ([A-Z][\w ]*?) in )?\b(docs/[\w-]+\.md)\b`)

var (
	path     = regexp.MustCompile(`\.?[\w-]+(?:/[\w.-]+)+`)
	testName = regexp.MustCompile(`\bTest[A-Z]\w*`)
)

// TestCommands: each block with commands is run, or names the test that runs
// it.
func TestCommands(t *testing.T) {
	t.Parallel()
	for _, p := range read(t) {
		if p.Name == "CHANGELOG.md" {
			continue
		}
		if p.NotRun != "" {
			checkReason(t, p.Name, 1, p.NotRun)
		}
		for _, b := range p.Blocks {
			switch {
			case b.NotRun != "" && !b.HasCommands():
				t.Errorf("%s:%d: \"not run\", but there is no command", p.Name, b.Line)
			case b.NotRun != "":
				checkReason(t, p.Name, b.Line, b.NotRun)
			case slices.ContainsFunc(b.RunIn, func(kind string) bool { return !slices.Contains(kinds, kind) }):
				t.Errorf("%s:%d: run in %q, want some of %q", p.Name, b.Line, b.RunIn, kinds)
			case b.Language == "sql" && b.RunIn == nil && !strings.HasPrefix(b.Lines[0], "SELECT "): // of the reader's own tables
				t.Errorf("%s:%d: statements that no database executes, see \"run in\"", p.Name, b.Line)
			case b.HasCommands() && p.NotRun == "" && b.RunIn == nil && b.File == "":
				if _, err := b.Steps(); err != nil {
					t.Errorf("%s: %v", p.Name, err)
				}
			case !slices.Contains(shells, b.Language) && slices.ContainsFunc(b.Lines, func(line string) bool { return strings.HasPrefix(line, "$ ") }):
				t.Errorf("%s:%d: commands in a block of %s", p.Name, b.Line, b.Language)
			}
		}
	}
}

// TestTranslations: a page in another language has the commands of its original,
// in the same terminals, so the tests of the original are those of both.
func TestTranslations(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range read(t) {
		name := original(p.Name)
		if name == "" {
			continue
		}
		found++
		from := parse(t, filepath.Join(repository, name))
		if (p.NotRun == "") != (from.NotRun == "") {
			t.Errorf("%s: \"page not run\" is not in both this page and %s", p.Name, name)
		}
		blocks, want := typedBlocks(p), typedBlocks(from)
		for i := range min(len(blocks), len(want)) {
			b, w := blocks[i], want[i]
			if b.Language != w.Language || b.Terminal != w.Terminal || b.File != w.File || b.Vary != w.Vary || !slices.Equal(b.RunIn, w.RunIn) ||
				(b.NotRun == "") != (w.NotRun == "") || !slices.Equal(b.Lines, w.Lines) {
				t.Fatalf("%s:%d differs from %s:%d:\n%+v\n%+v", p.Name, b.Line, name, w.Line, b, w)
			}
		}
		if len(blocks) != len(want) {
			t.Errorf("%s has %d blocks with commands, %s %d", p.Name, len(blocks), name, len(want))
		}
	}
	if found < 2 {
		t.Errorf("only %d translations", found)
	}
}

// original is the name of the page that a page translates, "" if it does not.
func original(name string) string {
	if of, ok := strings.CutPrefix(name, "docs/zh/"); ok {
		return "docs/" + of
	}
	if name == "README.zh-CN.md" {
		return "README.md"
	}
	return ""
}

// typedBlocks are the blocks of a page that a reader types or saves.
func typedBlocks(p Document) []Block {
	return slices.DeleteFunc(p.Blocks, func(b Block) bool { return !b.HasCommands() })
}

// checkReason: a reason not to run a block names an existing test that does.
func checkReason(t *testing.T, page string, line int, reason string) {
	t.Helper()
	t.Logf("%s:%d: not run: %s", page, line, reason)
	files := path.FindAllString(reason, -1)
	if len(files) == 0 {
		t.Errorf("%s:%d: %q names no file that runs or tests it", page, line, reason)
	}
	tests := testName.FindAllString(reason, -1)
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(repository, file))
		if _, statErr := os.Stat(filepath.Join(repository, file)); statErr != nil {
			t.Errorf("%s:%d: %q: there is no %s", page, line, reason, file)
			continue
		}
		if err != nil || !strings.HasSuffix(file, ".go") {
			continue
		}
		for _, name := range tests {
			if !strings.Contains(string(data), "func "+name+"(") {
				t.Errorf("%s:%d: %q: there is no %s in %s", page, line, reason, name, file)
			}
		}
	}
}
