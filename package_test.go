package backoff_test

import (
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/nightly"
)

// A program that retries anything imports this package, and carries whatever it
// carries. One constant of net/http takes a program from 1.6 to 3.4 MB;
// log/slog costs 0.4 MB, expvar brings net/http and a handler on the default
// mux; testing registers flags. What needs one of them lives in a package of
// its own: backoffhttp, backoffslog, backoffmetrics, backofftest.
func TestThePackageIsLight(t *testing.T) {
	t.Parallel()
	heavy := map[string]string{
		"net/http":      "use backoffhttp",
		"net":           "errors are known by their shape, see classify.go",
		"net/url":       "errors are known by their shape, see classify.go",
		"crypto/tls":    "errors are known by their shape, see classify.go",
		"crypto/x509":   "errors are known by their shape, see classify.go",
		"log/slog":      "use backoffslog",
		"log":           "a library does not log",
		"expvar":        "use backoffmetrics",
		"testing":       "use backofftest",
		"encoding/json": "use spec: it would add 12 KiB to those who read no file",
	}
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}! {{end}}{{.ImportPath}}", ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	deps := strings.Fields(strings.ReplaceAll(string(out), "! ", "!"))
	require.Contains(t, deps, "!github.com/gobackoff/backoff", "the list is not ours")
	for _, dep := range deps {
		why, bad := heavy[dep]
		require.False(t, bad, "the package now depends on %s: %s", dep, why)
		if path, ok := strings.CutPrefix(dep, "!"); ok {
			ours := path == "github.com/gobackoff/backoff" || strings.HasPrefix(path, "github.com/gobackoff/backoff/internal/")
			require.True(t, ours, "the package now depends on %s, want the standard library and internal/ only", path)
		}
	}
}

// A program chooses the version of this module and that of a module in contrib
// apart from each other. What is internal here may change in any version, and
// so a module in contrib uses only what is exported: otherwise upgrading one of
// the two could break the other.
func TestModulesThatUsersImportDoNotImportInternalPackagesOfTheRoot(t *testing.T) {
	modules, err := filepath.Glob("contrib/*/go.mod")
	require.NoError(t, err)
	if len(modules) == 0 {
		t.Skip("this copy of the module comes without contrib")
	}
	for _, module := range modules {
		require.NoError(t, filepath.WalkDir(filepath.Dir(module), func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				requireNoInternalImport(t, path)
			}
			return err
		}))
	}
}

func requireNoInternalImport(t *testing.T, file string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	require.NoError(t, err)
	for _, spec := range parsed.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		require.False(t, strings.HasPrefix(path, "github.com/gobackoff/backoff/internal/"), "%s imports %s", file, path)
	}
}

// Programs that limit no rate do not carry a rate limiter.
func TestTheRateLimiterIsImportedByLimitAndSpecOnly(t *testing.T) {
	var importers []string
	for _, dir := range packages(t) {
		p, err := build.ImportDir(dir, 0)
		if _, onlyTests := err.(*build.NoGoError); !onlyTests {
			require.NoError(t, err)
		}
		if slices.ContainsFunc(p.Imports, func(path string) bool { return strings.HasPrefix(path, "golang.org/x/time") }) {
			importers = append(importers, filepath.ToSlash(dir))
		}
	}
	require.Equal(t, []string{"limit", "spec"}, importers)
}

// Every exported name of every package of this module says what it is, and
// every exported type is shown in use.
func TestEveryExportedNameIsDocumentedAndEveryTypeHasAnExample(t *testing.T) {
	nightly.Long(t)
	t.Parallel()
	for _, dir := range packages(t) {
		p := parsed(t, dir)
		if strings.Contains(p.ImportPath, "internal/") {
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

// requireValues wants a comment on each of a group of constants or variables,
// or one on the group.
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

// The steps in the box of docs/architecture.md are methods of Run, and what stands in
// backquotes there is a name of this module.
func TestTheNamesInTheArchitectureAreDeclared(t *testing.T) {
	nightly.Long(t)
	t.Parallel()
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Skip("this copy of the module comes without docs")
	}
	parts := strings.Split(string(text), "```")
	require.Len(t, parts, 3, "one diagram")
	declared := declarations(t)

	steps := step.FindAllStringSubmatch(strings.Join(boxed.FindAllString(parts[1], -1), "\n"), -1)
	require.Greater(t, len(steps), 15, "the steps are still found")
	for _, m := range steps {
		require.True(t, declared["Run."+m[1]+m[2]], "a Run has no method %s", m[1]+m[2])
	}

	names := quoted.FindAllStringSubmatch(parts[0]+parts[2], -1)
	require.Greater(t, len(names), 50, "the names are still found")
	for _, m := range names {
		require.True(t, declared[m[1]], "nothing is named %s", m[0])
	}
}

var (
	boxed = regexp.MustCompile(`(?m)^  \|.*$`)
	// A step begins a line of the box, or follows a colon, a semicolon or an arrow.
	step   = regexp.MustCompile(`(?m)^  \|[ |]*(?:-- )?([a-z]\w*)(?:  |, deferred)|(?:: |; |> )([a-z]\w*)(?:,|:| -| *\|$)`)
	quoted = regexp.MustCompile("`([A-Za-z][\\w.]*)`")
)

// declarations returns what the packages of this module declare: each as Name, and as
// package.Name or Type.Name.
func declarations(t *testing.T) map[string]bool {
	declared := map[string]bool{}
	add := func(of string, names ...*ast.Ident) {
		for _, name := range names {
			declared[name.Name], declared[of+"."+name.Name] = true, true
		}
	}
	for _, dir := range packages(t) {
		_, files := parsedFiles(t, dir)
		for _, file := range files {
			for _, d := range file.Decls {
				addDeclaration(add, file.Name.Name, d)
			}
		}
	}
	return declared
}

func addDeclaration(add func(of string, names ...*ast.Ident), pkg string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		of := pkg
		if d.Recv != nil {
			of = strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*")
		}
		add(of, d.Name)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			addSpec(add, pkg, spec)
		}
	}
}

func addSpec(add func(of string, names ...*ast.Ident), pkg string, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		add(pkg, s.Names...)
	case *ast.TypeSpec:
		add(pkg, s.Name)
		ast.Inspect(s.Type, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok {
				add(s.Name.Name, f.Names...)
			}
			return true
		})
	}
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
	set, files := parsedFiles(t, dir)
	p, err := doc.NewFromFiles(set, files, filepath.ToSlash(dir))
	require.NoError(t, err)
	return p
}

func parsedFiles(t *testing.T, dir string) (set *token.FileSet, files []*ast.File) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	set = token.NewFileSet()
	for _, name := range names {
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, file)
	}
	return set, files
}
