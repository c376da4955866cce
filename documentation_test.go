package backoff_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every exported name of every package of this module says what it is, and every
// exported type is shown in use.
func TestEveryExportedNameIsDocumentedAndEveryTypeHasAnExample(t *testing.T) {
	for _, dir := range packages(t) {
		p := parsed(t, dir)
		if strings.HasPrefix(p.ImportPath, "internal/") {
			continue
		}
		require.NotEmpty(t, p.Doc, "package %s", dir)
		for _, v := range append(p.Consts, p.Vars...) {
			requireValues(t, dir, v)
		}
		for _, f := range p.Funcs {
			require.NotEmpty(t, f.Doc, "%s: func %s", dir, f.Name)
		}
		for _, typ := range p.Types {
			requireType(t, dir, typ)
		}
	}
}

func requireType(t *testing.T, dir string, typ *doc.Type) {
	require.NotEmpty(t, typ.Doc, "%s: type %s", dir, typ.Name)
	examples := typ.Examples
	for _, f := range append(typ.Funcs, typ.Methods...) {
		require.NotEmpty(t, f.Doc, "%s: %s.%s", dir, typ.Name, f.Name)
		examples = append(examples, f.Examples...)
	}
	if len(examples) == 0 {
		t.Errorf("%s: type %s has no Example", dir, typ.Name)
	}
	for _, v := range append(typ.Consts, typ.Vars...) {
		requireValues(t, dir, v)
	}
}

// requireValues wants a comment on each of a group of constants or variables, or one on
// the group.
func requireValues(t *testing.T, dir string, v *doc.Value) {
	for _, spec := range v.Decl.Specs {
		s := spec.(*ast.ValueSpec)
		for _, name := range s.Names {
			if name.IsExported() && v.Doc == "" && s.Doc.Text() == "" && s.Comment.Text() == "" {
				t.Errorf("%s: %s has no comment", dir, name.Name)
			}
		}
	}
}

// A promise of SECURITY.md whose test is gone, or was renamed, is no promise.
func TestEveryLineOfTheThreatModelNamesItsTest(t *testing.T) {
	text, err := os.ReadFile("SECURITY.md")
	require.NoError(t, err)
	known := tests(t)
	named := regexp.MustCompile("`((?:Test|Fuzz|Example)\\w+)`")
	rows := regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(string(text), -1)
	for _, row := range rows {
		if strings.HasPrefix(row, "|---") || strings.HasSuffix(row, "| Test |") {
			continue
		}
		names := named.FindAllStringSubmatch(row, -1)
		require.NotEmpty(t, names, "%s", row)
		for _, name := range names {
			require.True(t, known[name[1]], "%s is no test of this module", name[1])
		}
	}
	require.Greater(t, len(rows), 30)
}

// tests are the names of the tests of this module.
func tests(t *testing.T) map[string]bool {
	known := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w+)\(`)
	for _, dir := range packages(t) {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, name := range declared.FindAllStringSubmatch(string(text), -1) {
				known[name[1]] = true
			}
		}
	}
	return known
}

// packages lists the directories of this module that hold Go files.
func packages(t *testing.T) []string {
	seen := map[string]bool{}
	var dirs []string
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || nested(path)) {
			return filepath.SkipDir
		}
		if dir := filepath.Dir(path); strings.HasSuffix(path, ".go") && !seen[dir] {
			seen[dir] = true
			dirs = append(dirs, dir)
		}
		return nil
	}))
	return dirs
}

func nested(dir string) bool {
	found, _ := filepath.Glob(filepath.Join(dir, "go.mod"))
	return len(found) > 0
}

func parsed(t *testing.T, dir string) *doc.Package {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, file)
	}
	p, err := doc.NewFromFiles(set, files, filepath.ToSlash(dir))
	require.NoError(t, err)
	return p
}
