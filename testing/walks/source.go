package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/idworker/idworker/testing/process"
)

// Entries are functions where a walk begins or goes on. No call in the source
// leads to them: a subscription, a channel, a timer or a library does.
const (
	start    = "cmd/idworker/main.go main"
	serve    = "cmd/idworker/serve.go serveCmd.Run"
	request  = "worker/internal/answer/nats.go segmentEndpoint.Handle"
	send     = "worker/internal/supply/supply.go Supply.send"
	pull     = "worker/internal/loader/stream.go Loader.pull"
	straight = "worker/internal/loader/loader.go Loader.Load"
	grant    = "worker/internal/supply/supply.go Supply.receive"
	loop     = "worker/internal/supply/supply.go Supply.run"
)

var entries = []string{start, serve, request, send, pull, straight, grant, loop}

// function is a function or method that the module declares.
type function struct {
	file, name string // T.f for a method
	decl       *ast.FuncDecl
}

func (f *function) String() string { return f.file + " " + f.name }

// source is the module's code that idworker is built from.
type source struct {
	set  *token.FileSet
	info *types.Info

	functions []*function       // of all files, in order
	inFile    map[string]fileOf // by path
}

// fileOf is a file and its functions.
type fileOf struct {
	file      *token.File
	functions []*function
}

// listedPackage is a package as go list describes it.
type listedPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct {
		Path string
		Main bool
	}
}

// load parses and type-checks the module's packages. The types of other packages
// come from the compiler's export data.
func load() (*source, error) {
	out, err := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,Module", process.Command).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	s := newSource()
	exports, checked := make(map[string]string), make(map[string]*types.Package)
	others := importer.ForCompiler(s.set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	config := types.Config{Importer: importing(func(path string) (*types.Package, error) {
		if p := checked[path]; p != nil {
			return p, nil
		}
		return others.Import(path)
	})}
	// A package follows those that it imports.
	for list := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := list.Decode(&p); errors.Is(err, io.EOF) {
			return s, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[p.ImportPath] = p.Export
		if p.Module == nil || !p.Module.Main {
			continue
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				return nil, err
			}
			file, err := s.parse(p.Module.Path, p.ImportPath+"/"+name, text)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
		if checked[p.ImportPath], err = config.Check(p.ImportPath, s.set, files, s.info); err != nil {
			return nil, err
		}
	}
}

type importing func(path string) (*types.Package, error)

// Import implements types.Importer.
func (f importing) Import(path string) (*types.Package, error) { return f(path) }

func newSource() *source {
	return &source{
		set: token.NewFileSet(), info: &types.Info{Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object)},
		inFile: make(map[string]fileOf),
	}
}

// parse adds the functions of a file, whose path begins with the module's.
func (s *source) parse(module, path string, text []byte) (*ast.File, error) {
	file, err := parser.ParseFile(s.set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	in := fileOf{file: s.set.File(file.FileStart)}
	for _, d := range file.Decls {
		if decl, ok := d.(*ast.FuncDecl); ok {
			in.functions = append(in.functions, &function{strings.TrimPrefix(path, module+"/"), nameOf(decl), decl})
		}
	}
	s.functions = append(s.functions, in.functions...)
	s.inFile[path] = in
	return file, nil
}

// nameOf returns the name of a function, behind the type of a method.
func nameOf(decl *ast.FuncDecl) string {
	if decl.Recv == nil {
		return decl.Name.Name
	}
	receiver, _, _ := strings.Cut(types.ExprString(decl.Recv.List[0].Type), "[")
	return strings.TrimPrefix(receiver, "*") + "." + decl.Name.Name
}

// count returns the largest counter of each function, of all blocks that begin
// in it, from a profile as go tool covdata textfmt writes it.
func (s *source) count(profile string) (map[*function]int, error) {
	counters := make(map[*function]int)
	for lines := bufio.NewScanner(strings.NewReader(profile)); lines.Scan(); {
		name, block, _ := strings.Cut(lines.Text(), ":")
		if name == "mode" {
			continue
		}
		var line, column, endLine, endColumn, statements, counter int
		if _, err := fmt.Sscanf(block, "%d.%d,%d.%d %d %d", &line, &column, &endLine, &endColumn, &statements, &counter); err != nil {
			return nil, fmt.Errorf("profile: %q: %w", lines.Text(), err)
		}
		in, ok := s.inFile[name]
		if !ok || line > in.file.LineCount() {
			return nil, fmt.Errorf("profile: %q: no such line in the source", lines.Text())
		}
		at := in.file.LineStart(line) + token.Pos(column-1)
		for _, f := range in.functions {
			if f.decl.Pos() <= at && at < f.decl.End() {
				counters[f] = max(counters[f], counter)
			}
		}
	}
	if len(counters) == 0 {
		return nil, errors.New("profile: no function has a counter")
	}
	return counters, nil
}

// atLeast returns the functions with counters of at least nine tenths of n.
func atLeast(counters map[*function]int, n int) map[*function]bool {
	on := make(map[*function]bool)
	for f, counter := range counters {
		if counter > 0 && 10*counter >= 9*n {
			on[f] = true
		}
	}
	return on
}

// inOrder puts functions in the order of calls in the source, depth first from
// the entries, then from functions that these calls do not reach.
func (s *source) inOrder(on map[*function]bool, entries []string) ([]*function, error) {
	var from []*function
	for _, entry := range entries {
		i := slices.IndexFunc(s.functions, func(f *function) bool { return f.String() == entry })
		if i < 0 {
			return nil, fmt.Errorf("%s does not exist: correct the entries in testing/walks/source.go", entry)
		}
		from = append(from, s.functions[i])
	}
	v := visit{source: s, on: on, byObject: make(map[types.Object]*function), seen: make(map[*function]bool)}
	for f := range on {
		v.byObject[s.info.Defs[f.decl.Name]] = f
	}
	for _, f := range append(from, s.functions...) {
		v.from(f)
	}
	return v.order, nil
}

// visit is a depth-first walk of the calls between some functions.
type visit struct {
	*source
	on       map[*function]bool
	byObject map[types.Object]*function
	seen     map[*function]bool
	order    []*function
}

// from visits a function, then the functions that its body names.
func (v *visit) from(f *function) {
	if !v.on[f] || v.seen[f] {
		return
	}
	v.seen[f] = true
	v.order = append(v.order, f)
	ast.Inspect(f.decl, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		if called, ok := v.info.Uses[id].(*types.Func); ok {
			v.called(called.Origin())
		}
		return true
	})
}

// called visits a function, or all methods that implement one of an interface.
func (v *visit) called(called *types.Func) {
	receiver := called.Signature().Recv()
	if receiver == nil || !types.IsInterface(receiver.Type()) {
		if f := v.byObject[called]; f != nil {
			v.from(f)
		}
		return
	}
	of := receiver.Type().Underlying().(*types.Interface)
	for _, f := range v.functions {
		if f.decl.Recv == nil || f.decl.Name.Name != called.Name() || !v.on[f] {
			continue
		}
		t := v.info.Defs[f.decl.Name].(*types.Func).Signature().Recv().Type()
		if types.Implements(t, of) || types.Implements(types.NewPointer(t), of) {
			v.from(f)
		}
	}
}
