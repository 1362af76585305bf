package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

func (f *findings) goFile(name, text string) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		f.fault(name, "%v", err)
		return
	}
	for _, group := range parsed.Comments {
		comment := strings.Join(strings.Fields(group.Text()), " ") // without directives
		at := place(files.Position(group.Pos()))
		f.text(at, comment)
		if found := fragment.FindString(comment); found != "" {
			f.fault(at, "%q: a sentence begins with its subject", found)
		}
	}
	if strings.HasSuffix(name, "_test.go") {
		return
	}
	for _, d := range parsed.Decls {
		if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.TYPE {
			f.types(files, d.Specs)
		}
	}
	if !strings.HasPrefix(name, "testing/") {
		ast.Inspect(parsed, func(n ast.Node) bool { f.node(files, n); return true })
	}
}

// types collects the exported types by name, except aliases.
func (f *findings) types(files *token.FileSet, specs []ast.Spec) {
	for _, spec := range specs {
		t, ok := spec.(*ast.TypeSpec)
		if !ok || !t.Name.IsExported() || t.Assign != token.NoPos || everyPackageHas[t.Name.Name] {
			continue
		}
		at := place(files.Position(t.Pos()))
		if first, found := f.typeAt[t.Name.Name]; found {
			f.fault(at, "type %s is also at %s; one name, one thing", t.Name.Name, first)
			continue
		}
		if f.typeAt == nil {
			f.typeAt = make(map[string]string)
		}
		f.typeAt[t.Name.Name] = at
	}
}

// everyPackageHas are names that mean the same in each package: what it is
// given, and what it counts.
var everyPackageHas = map[string]bool{"Config": true, "Figures": true}

// node finds the strings of a program that people read, by how they are used.
func (f *findings) node(files *token.FileSet, n ast.Node) {
	switch n := n.(type) {
	case *ast.Field:
		if n.Tag == nil {
			return
		}
		tag, _ := strconv.Unquote(n.Tag.Value)
		if _, help, ok := strings.Cut(tag, `help:"`); ok {
			help, _, _ = strings.Cut(strings.ReplaceAll(help, `\"`, "”"), `"`)
			f.text(place(files.Position(n.Pos())), help)
		}
	case *ast.CallExpr:
		name := called(n.Fun)
		argument := 0
		switch name {
		case "errors.New", "fmt.Errorf":
		case "problem.New":
			argument = 1
		default:
			if _, method, _ := strings.Cut(name, "."); !isLevel[method] {
				return
			}
		}
		if len(n.Args) <= argument {
			return
		}
		if text, ok := literal(n.Args[argument]); ok {
			f.text(place(files.Position(n.Pos())), text)
		}
	}
}

var isLevel = map[string]bool{"Debug": true, "Info": true, "Warn": true, "Error": true, "DPanic": true, "Fatal": true}

// called is the last two names of a call, as errors.New or log.Warn.
func called(e ast.Expr) string {
	selector, ok := e.(*ast.SelectorExpr)
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
