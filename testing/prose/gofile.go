package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

func (r *findings) goFile(name, text string) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		r.fault(name, "%v", err)
		return
	}
	if n := strings.Count(text, "\n"); path.Base(name) == "doc.go" && n > packageComment {
		r.fault(name, "%d lines, at most %d; arguments belong in docs/proofs", n, packageComment)
	}
	lines := strings.Split(text, "\n")
	for _, group := range parsed.Comments {
		r.comment(files, group, lines)
	}
	if strings.HasSuffix(name, "_test.go") {
		return
	}
	for _, d := range parsed.Decls {
		if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.TYPE {
			r.types(files, d.Specs)
		}
	}
	if !strings.HasPrefix(name, "testing/") {
		ast.Inspect(parsed, func(n ast.Node) bool { r.node(files, n); return true })
	}
}

// types collects the exported types by name, except aliases.
func (r *findings) types(files *token.FileSet, specs []ast.Spec) {
	for _, spec := range specs {
		t, ok := spec.(*ast.TypeSpec)
		if !ok || !t.Name.IsExported() || t.Assign != token.NoPos || everyPackageHas[t.Name.Name] {
			continue
		}
		at := place(files.Position(t.Pos()))
		if first, found := r.typeAt[t.Name.Name]; found {
			r.fault(at, "type %s is also at %s; one name, one thing", t.Name.Name, first)
			continue
		}
		if r.typeAt == nil {
			r.typeAt = make(map[string]string)
		}
		r.typeAt[t.Name.Name] = at
	}
}

// everyPackageHas are names that mean the same in each package: what it is
// given, and what it counts.
var everyPackageHas = map[string]bool{"Config": true, "Figures": true}

func (r *findings) comment(files *token.FileSet, group *ast.CommentGroup, lines []string) {
	prose := group.Text() // without directives
	r.commentWords += words(prose)
	for i, rate := range rates {
		r.counts[i] += len(rate.expression.FindAllString(prose, -1))
	}
	at := files.Position(group.Pos())
	for n := at.Line; n <= files.Position(group.End()).Line; n++ {
		line := strings.TrimSuffix(strings.ReplaceAll(lines[n-1], "\t", "    "), "\r")
		if strings.Contains(line, "//nolint") || strings.HasPrefix(strings.TrimSpace(line), "//go:") {
			continue
		}
		r.commentLines++
		if utf8.RuneCountInString(line) > commentColumns {
			r.wide++
		}
	}
	r.banned(place(at), strings.Join(strings.Fields(prose), " "))
}

// node finds the strings of a program that people read, by how they are used.
func (r *findings) node(files *token.FileSet, n ast.Node) {
	switch n := n.(type) {
	case *ast.Field:
		if n.Tag == nil {
			return
		}
		tag, _ := strconv.Unquote(n.Tag.Value)
		if _, help, ok := strings.Cut(tag, `help:"`); ok {
			help, _, _ = strings.Cut(strings.ReplaceAll(help, `\"`, "”"), `"`)
			r.message(&r.help, place(files.Position(n.Pos())), help)
		}
	case *ast.CallExpr:
		name := called(n.Fun)
		argument, into := 0, &r.errors
		switch name {
		case "errors.New", "fmt.Errorf":
		case "problem.New":
			argument = 1
		default:
			if _, method, _ := strings.Cut(name, "."); !isLevel[method] {
				return
			}
			into = &r.logs
		}
		if len(n.Args) <= argument {
			return
		}
		if text, ok := literal(n.Args[argument]); ok {
			at := place(files.Position(n.Pos()))
			r.message(into, at, text)
			if into == &r.logs && words(text) > logWords {
				r.fault(at, "%d words, at most %d in a log message: %s", words(text), logWords, text)
			}
		}
	}
}

var isLevel = map[string]bool{"Debug": true, "Info": true, "Warn": true, "Error": true, "DPanic": true, "Fatal": true}

func (r *findings) message(to *[]message, at, text string) {
	*to = append(*to, message{at, text})
	r.banned(at, text)
}

// called is the last two names of a call, as errors.New or log.Warn.
func called(f ast.Expr) string {
	selector, ok := f.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	on := ""
	switch x := selector.X.(type) {
	case *ast.Ident:
		on = x.Name
	case *ast.SelectorExpr:
		on = x.Sel.Name
	}
	return on + "." + selector.Sel.Name
}

// literal is the text of string literals, also of those that are added up.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, ok := literal(e.X)
		right, ok2 := literal(e.Y)
		return left + right, ok || ok2
	}
	return "", false
}

func place(at token.Position) string { return fmt.Sprintf("%s:%d", at.Filename, at.Line) }
