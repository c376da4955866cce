package all

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/packages"
)

// FuzzNoRulePanics runs all rules over changed sources, also over those that do not type-check,
// which no driver does.
func FuzzNoRulePanics(f *testing.F) {
	for _, source := range sources(f) {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) { check(t, source) })
}

func TestNoRulePanicsWhereALineIsMissing(t *testing.T) {
	for _, source := range sources(t) {
		lines := strings.SplitAfter(source, "\n")
		for i := range lines {
			check(t, strings.Join(lines[:i], "")+strings.Join(lines[i+1:], ""))
		}
	}
}

func TestALargeFileIsChecked(t *testing.T) {
	var large strings.Builder
	large.WriteString("package large\n")
	for i := range 20_000 {
		fmt.Fprintf(&large, "func f%d(call func() error) error {\n\tfor i := 0; i < 3; i++ {\n"+
			"\t\tif call() == nil {\n\t\t\treturn nil\n\t\t}\n\t}\n\treturn nil\n}\n", i)
	}
	check(t, large.String())
}

// sources returns the sources of testdata of the general rules.
func sources(t testing.TB) []string {
	files, err := filepath.Glob("../general/testdata/*/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		all = append(all, string(text))
	}
	return all
}

// check runs all rules over a source.
func check(t testing.TB, source string) {
	fset := token.NewFileSet()
	file, _ := parser.ParseFile(fset, "a.go", source, parser.ParseComments|parser.SkipObjectResolution)
	if file == nil || file.Name == nil || !file.FileStart.IsValid() {
		return
	}
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Instances: map[*ast.Ident]types.Instance{},
		Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Implicits: map[ast.Node]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
		Scopes: map[ast.Node]*types.Scope{}, FileVersions: map[*ast.File]string{},
	}
	config := types.Config{Importer: importer(standard(t)), Error: func(error) {}, GoVersion: "go1.22"}
	pkg, _ := config.Check("a", fset, []*ast.File{file}, info)
	run := running{pass: analysis.Pass{
		Fset: fset, Files: []*ast.File{file}, Pkg: pkg, TypesInfo: info, TypesSizes: types.SizesFor("gc", "amd64"),
		Report: func(analysis.Diagnostic) {}, ReadFile: func(string) ([]byte, error) { return []byte(source), nil },
	}, results: map[*analysis.Analyzer]any{}}
	for _, a := range Rules() {
		run.analyzer(t, a)
	}
}

type running struct {
	pass    analysis.Pass
	results map[*analysis.Analyzer]any
}

func (r running) analyzer(t testing.TB, a *analysis.Analyzer) any {
	if result, done := r.results[a]; done {
		return result
	}
	pass := r.pass
	pass.Analyzer, pass.ResultOf = a, map[*analysis.Analyzer]any{}
	for _, required := range a.Requires {
		pass.ResultOf[required] = r.analyzer(t, required)
	}
	result, err := a.Run(&pass)
	require.NoError(t, err)
	r.results[a] = result
	return result
}

// importer imports what standard loaded.
type importer map[string]*types.Package

func (i importer) Import(path string) (*types.Package, error) {
	if pkg := i[path]; pkg != nil {
		return pkg, nil
	}
	return nil, fmt.Errorf("no package %q", path)
}

var loaded = sync.OnceValues(func() (importer, error) {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadTypes | packages.NeedImports},
		"bytes", "context", "errors", "fmt", "io", "log", "math", "math/rand/v2", "net/http", "net/url", "os",
		"strconv", "strings", "syscall", "time")
	found := importer{}
	for _, p := range pkgs {
		found[p.PkgPath] = p.Types
	}
	return found, err
})

func standard(t testing.TB) importer {
	i, err := loaded()
	require.NoError(t, err)
	return i
}
