package library

import (
	"go/ast"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

// gopath is a workspace with the library as it is in this checkout, and with testdata. So a rule
// fails here if a name that it knows changes, and the tests need no network.
var gopath string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "backoffvet")
	if err == nil {
		err = makeWorkspace(dir)
	}
	if err != nil {
		panic(err)
	}
	gopath = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func makeWorkspace(dir string) error {
	checkout := filepath.Join("..", "..", "..", "..")
	if err := copySources(checkout, filepath.Join(dir, "src", module)); err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(dir, "src"), os.DirFS(filepath.Join("testdata", "src")))
}

// copySources copies the Go files of a module that users import.
func copySources(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skip(from, path)
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		return copyFile(path, filepath.Join(to, rel))
	})
}

// skip leaves out the other modules of a checkout.
func skip(module, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil && dir != module {
		return fs.SkipDir
	}
	return nil
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

// everything runs all rules, so that each is also tried on the code that another one is about.
var everything = &analysis.Analyzer{
	Name:     "everything",
	Doc:      "run all rules",
	Requires: Analyzers[0].Requires,
	Run: func(p *analysis.Pass) (any, error) {
		for _, a := range Analyzers {
			of := *p
			of.Analyzer = a
			if _, err := a.Run(&of); err != nil {
				return nil, err
			}
		}
		return nil, nil
	},
}

func TestEachRuleFindsItsBugAndNothingElse(t *testing.T) {
	dirs, err := os.ReadDir(filepath.Join("testdata", "src"))
	require.NoError(t, err)
	var packages []string
	for _, dir := range dirs {
		if !strings.Contains(dir.Name(), ".") { // else it is a stub of a library
			packages = append(packages, dir.Name())
		}
	}
	require.GreaterOrEqual(t, len(packages), len(Analyzers))
	rule.Tests = true
	t.Cleanup(func() { rule.Tests = false })
	analysistest.RunWithSuggestedFixes(t, gopath, everything, packages...)
}

func TestTheLibraryIsNotItsOwnUser(t *testing.T) {
	policy := types.NewTypeName(token.NoPos, types.NewPackage(module, "backoff"), "Policy", nil)
	pass := &analysis.Pass{
		Pkg:       types.NewPackage(module+"/poll", "poll"),
		TypesInfo: &types.Info{Uses: map[*ast.Ident]types.Object{ast.NewIdent("Policy"): policy}},
	}
	require.True(t, usesLibrary(pass))
	pass.Module = &analysis.Module{Path: module}
	require.False(t, usesLibrary(pass))
}

func TestEachRuleHasAPage(t *testing.T) {
	for _, a := range Analyzers {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", a.Name+".md"))
		require.NoError(t, err)
		for _, part := range []string{"# " + a.Name + ": ", "\n## The bug\n", "\n## What it cost\n", "\n## Mend it by hand\n",
			"\n## Mend it with this library\n", "\n## Silence it\n", "//backoffvet:ignore " + a.Name + " "} {
			require.Contains(t, string(text), part, a.Name)
		}
	}
}
