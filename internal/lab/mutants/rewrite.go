package main

import (
	"fmt"
	"go/ast"
	"go/build"
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
)

// A pkg is the package that is mutated.
type pkg struct {
	dir     string
	fset    *token.FileSet
	sources []*source
	imports types.Importer
	info    *types.Info
	types   *types.Package
}

// A source is a file of the package.
type source struct {
	name string
	text []byte
	file *ast.File
}

func (s *source) offset(at token.Pos) int { return int(at - s.file.FileStart) }
func (s *source) code(n ast.Node) string  { return string(s.text[s.offset(n.Pos()):s.offset(n.End())]) }

// load reads the package in dir.
func load(dir string) (*pkg, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	listed, err := build.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	p := &pkg{dir: dir, fset: token.NewFileSet()}
	var files []*ast.File
	for _, name := range listed.GoFiles {
		s := &source{name: filepath.Join(dir, name)}
		if s.text, err = os.ReadFile(s.name); err != nil {
			return nil, err
		}
		if s.file, err = parser.ParseFile(p.fset, s.name, s.text, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		p.sources, files = append(p.sources, s), append(files, s.file)
	}
	if err := p.compileImports(); err != nil {
		return nil, err
	}
	p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: p.imports}
	p.types, err = config.Check(dir, p.fset, files, p.info)
	return p, err
}

// compileImports has the go command compile what the package imports.
func (p *pkg) compileImports() error {
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}",
		".", "os", "runtime/debug", "strconv")
	cmd.Dir, cmd.Stderr = p.dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list in %s: %w", p.dir, err)
	}
	compiled := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		compiled[path] = file
	}
	p.imports = importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(compiled[path])
	})
	return nil
}

// mistyped type-checks the package with all its mutants, and returns the
// numbers of those that have errors.
func (p *pkg) mistyped(mutants []*mutant) (bad map[int]bool, err error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for name, text := range p.rewritten(mutants) {
		file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	bad = map[int]bool{}
	config := types.Config{Importer: p.imports, Error: func(e error) {
		in, n := filepath.Base(fset.Position(e.(types.Error).Pos).Filename), 0
		if _, foreign := fmt.Sscanf(in, "mutant%d", &n); foreign != nil {
			err = e
		}
		bad[n] = true
	}}
	_, _ = config.Check(p.dir, fset, files, nil) // Error gets each error
	return bad, err
}

// The file that is added reads the number of the mutant. A mutant that recurses
// without end must not fill the memory before it fails.
const added = `
import (
	"os"
	"runtime/debug"
	"strconv"
)

var activeMutant, _ = strconv.Atoi(os.Getenv("MUTANT"))

func init() { debug.SetMaxStack(64 << 20) }
`

// rewritten returns the text of every file of the package, with the mutants.
func (p *pkg) rewritten(mutants []*mutant) map[string]string {
	files := map[string]string{filepath.Join(p.dir, "mutants_added.go"): "package " + p.types.Name() + "\n" + added}
	for _, s := range p.sources {
		files[s.name] = s.rewritten(mutants)
	}
	return files
}

// rewritten returns the file with its mutants behind it. A line directive
// before each of them makes its number the file name of its positions.
func (s *source) rewritten(mutants []*mutant) string {
	var edits []edit
	var copies strings.Builder
	for _, d := range s.file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !slices.ContainsFunc(mutants, func(m *mutant) bool { return m.fn == fn }) {
			continue
		}
		call, named := s.call(fn)
		cases := "switch activeMutant { "
		for _, m := range mutants {
			if m.fn == fn {
				cases += fmt.Sprintf("case %d: "+call+"; ", m.number, m.number)
				fmt.Fprintf(&copies, "\n//line mutant%d:1\n%s\n", m.number, m.copied())
			}
		}
		begin := s.offset(fn.Body.Lbrace) + 1
		edits = append(append(edits, named...), edit{begin, begin, cases + "};"})
	}
	return edited(s.text, 0, len(s.text), edits) + copies.String()
}

// copied returns the changed copy of the function.
func (m *mutant) copied() string {
	s, name := m.source, m.fn.Name
	rename := edit{s.offset(name.Pos()), s.offset(name.End()), fmt.Sprint("mutant", m.number)}
	return edited(s.text, s.offset(m.fn.Pos()), s.offset(m.fn.End()), []edit{rename, m.change})
}

// call returns the statements that call a mutant of fn and return, with %d for
// its number, and the edits that name the parameters of fn for it.
func (s *source) call(fn *ast.FuncDecl) (code string, edits []edit) {
	code = "mutant%d"
	if on := s.names(fn.Recv, &edits); on != "" {
		code = on + "." + code
	}
	if typed := s.names(fn.Type.TypeParams, &edits); typed != "" {
		code += "[" + typed + "]"
	}
	code += "(" + s.names(fn.Type.Params, &edits) + ")"
	if fn.Type.Results == nil {
		return code + "; return", edits
	}
	return "return " + code, edits
}

// names returns the names of parameters as a list of arguments, and adds edits
// that name those without one.
func (s *source) names(list *ast.FieldList, edits *[]edit) string {
	if list == nil {
		return ""
	}
	var args []string
	add := func(name string, from, to token.Pos, after string) {
		if name == "" || name == "_" {
			name = fmt.Sprint("parameter", from)
			*edits = append(*edits, edit{s.offset(from), s.offset(to), name + after})
		}
		args = append(args, name)
	}
	for _, field := range list.List {
		if len(field.Names) == 0 {
			add("", field.Type.Pos(), field.Type.Pos(), " ")
		}
		for _, id := range field.Names {
			add(id.Name, id.Pos(), id.End(), "")
		}
		if _, variadic := field.Type.(*ast.Ellipsis); variadic {
			args[len(args)-1] += "..."
		}
	}
	return strings.Join(args, ", ")
}

// An edit replaces a part of a file, from one offset to another.
type edit struct {
	from, to int
	text     string
}

// edited returns what lies between two offsets of text, with the edits, which
// do not overlap.
func edited(text []byte, from, to int, edits []edit) string {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var b strings.Builder
	for _, e := range edits {
		b.Write(text[from:e.from])
		b.WriteString(e.text)
		from = e.to
	}
	b.Write(text[from:to])
	return b.String()
}
