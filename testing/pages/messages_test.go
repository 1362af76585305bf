package pages

import (
	"go/ast"
	syntax "go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestMessagesExist checks that the code still has each message that the page
// about troubleshooting explains. A message is `code` at the start of a row,
// and "…" stands for values.
func TestMessagesExist(t *testing.T) {
	t.Parallel()
	messages := quoted(t, filepath.Join(repository, "docs", "troubleshooting.md"))
	if len(messages) < 30 {
		t.Fatalf("only %d messages", len(messages))
	}
	texts := literals(t)
	for _, message := range messages {
		for part := range strings.SplitSeq(message, "…") {
			part = strings.Trim(part, " :")
			if part != "" && !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, part) }) {
				t.Errorf("docs/troubleshooting.md explains %q, and the code has no %q", message, part)
			}
		}
	}
}

var (
	firstCell = regexp.MustCompile("^\\| (`[^|]*`) \\|")
	backticks = regexp.MustCompile("`([^`]+)`")
)

// quoted returns the messages that a page explains.
func quoted(t *testing.T, file string) (messages []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if cell := firstCell.FindStringSubmatch(line); cell != nil {
			for _, m := range backticks.FindAllStringSubmatch(cell[1], -1) {
				messages = append(messages, m[1])
			}
		}
	}
	return messages
}

// literals returns the strings of the module's code, without its tests. It
// joins strings with + between them.
func literals(t *testing.T) (texts []string) {
	t.Helper()
	files := token.NewFileSet()
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(made, d.Name()) || path == filepath.Join(repository, "testing")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := syntax.ParseFile(files, path, nil, syntax.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			expression, ok := node.(ast.Expr)
			if !ok {
				return true
			}
			text, ok := joined(expression)
			if ok {
				texts = append(texts, text)
			}
			return !ok
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// joined returns the text of string literals with + between them.
func joined(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, ok := joined(e.X)
		right, too := joined(e.Y)
		return left + right, e.Op == token.ADD && ok && too
	}
	return "", false
}
