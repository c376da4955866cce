package docpage

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/lab/docpage/docpagetest"
)

const root = "../../.." // of the repository

// exported has what the packages for programs declare: "backoff.Policy", and "Policy.MaxAttempts"
// for its fields and methods; and the names of all tests.
type exported struct {
	names    map[string]bool
	packages map[string]bool
	types    map[string]bool
	embedded map[string][]string // by type
	tests    map[string]bool
}

// has reports whether a type has a field or a method, also by what it embeds.
func (e exported) has(typ, member string) bool {
	if e.names[typ+"."+member] {
		return true
	}
	for _, inner := range e.embedded[typ] {
		if inner != typ && e.has(inner, member) {
			return true
		}
	}
	return false
}

// add reads what a file declares.
func (e exported) add(f *ast.File) {
	e.packages[f.Name.Name] = true
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				e.names[f.Name.Name+"."+d.Name.Name] = true
				continue
			}
			e.names[typeName(d.Recv.List[0].Type)+"."+d.Name.Name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				e.addSpec(f.Name.Name, s)
			}
		}
	}
}

func (e exported) addSpec(pkg string, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			e.names[pkg+"."+name.Name] = true
		}
	case *ast.TypeSpec:
		e.names[pkg+"."+s.Name.Name] = true
		e.types[s.Name.Name] = s.Name.IsExported()
		e.addMembers(s.Name.Name, s.Type)
	}
}

// addMembers adds the fields of a struct, or the methods of an interface.
func (e exported) addMembers(typ string, of ast.Expr) {
	var members []*ast.Field
	switch of := of.(type) {
	case *ast.StructType:
		members = of.Fields.List
	case *ast.InterfaceType:
		members = of.Methods.List
	case *ast.Ident: // type Unguarded Transport: its fields
		e.embedded[typ] = append(e.embedded[typ], of.Name)
	}
	for _, m := range members {
		for _, name := range m.Names {
			e.names[typ+"."+name.Name] = true
		}
		if len(m.Names) == 0 {
			inner := typeName(m.Type)
			e.names[typ+"."+inner] = true
			e.embedded[typ] = append(e.embedded[typ], inner)
		}
	}
}

// typeName returns the name of a type, without its package, its star and its type parameters.
func typeName(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.StarExpr:
		return typeName(of.X)
	case *ast.SelectorExpr:
		return of.Sel.Name
	case *ast.IndexExpr:
		return typeName(of.X)
	case *ast.IndexListExpr:
		return typeName(of.X)
	}
	return ""
}

// apart are the directories that no program imports.
var apart = regexp.MustCompile(`/(internal|testdata|cmd|examples|\.\w+)(/|$)`)

// exports reads the repository.
func exports(t *testing.T) exported {
	e := exported{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string][]string{}, map[string]bool{}}
	tests := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	walk(t, ".go", func(name string) {
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range tests.FindAllStringSubmatch(docpagetest.Read(t, name), -1) {
				e.tests[m[1]] = true
			}
			return
		}
		if !apart.MatchString(filepath.ToSlash(filepath.Dir(strings.TrimPrefix(name, root)))) {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			e.add(f)
		}
	})
	return e
}

// walk calls visit with the names of the files of the repository that end in suffix.
func walk(t *testing.T, suffix string, visit func(name string)) {
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(name, suffix) {
			visit(name)
		}
		return err
	}))
}

var (
	fences = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	span   = regexp.MustCompile("`[^`\n]+`")
	dotted = regexp.MustCompile(`(?:^|[^\w.])(\w+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	fields = regexp.MustCompile(`(?:(\w+)\.)?([A-Z]\w*)\{([A-Z]\w*): `) // Type{Field: value}
	tested = regexp.MustCompile("^`((?:Test|Benchmark|Fuzz)[A-Z]\\w*)`$")
)

// others are names that look like ours: of cenkalti/backoff, of amqp091, and of internal/fault,
// which has the name of backofftest/fault.
var others = map[string]bool{
	"backoff.BackOff": true, "backoff.ErrPermanent": true, "backoff.Retry": true, "backoff.WithNotify": true,
	"Config.Recovery": true, "fault.As": true,
}

// What a document writes in backquotes as package.Name, Type.Member or TestName exists. The
// changelog also has the names of what is gone.
func TestNamesInTheProseOfTheDocumentsExist(t *testing.T) {
	all, count := exports(t), 0
	walk(t, ".md", func(name string) {
		if filepath.Base(name) == "CHANGELOG.md" {
			return
		}
		for _, code := range span.FindAllString(fences.ReplaceAllString(docpagetest.Read(t, name), ""), -1) {
			if m := tested.FindStringSubmatch(code); m != nil {
				count++
				if !all.tests[m[1]] {
					t.Errorf("%s: there is no %s", name, code)
				}
			}
			for _, m := range fields.FindAllStringSubmatch(code, -1) {
				if (m[1] == "" || all.packages[m[1]]) && all.types[m[2]] && !all.has(m[2], m[3]) {
					t.Errorf("%s: there is no field %s, in %s", name, m[3], code)
				}
			}
			for _, m := range dotted.FindAllStringSubmatch(code, -1) {
				count++
				if missing := all.missing(m[1], m[2], m[3]); missing != "" && !others[missing] {
					t.Errorf("%s: there is no %s, in %s", name, missing, code)
				}
			}
		}
	})
	require.Greater(t, count, 500, "names are still found")
}

// missing returns which of first.second.third does not exist, if first is a package or a type
// of this library.
func (e exported) missing(first, second, third string) string {
	switch {
	case e.packages[first] && !e.names[first+"."+second]:
		return first + "." + second
	case e.packages[first] && third != "" && !e.has(second, third):
		return second + "." + third
	case !e.packages[first] && e.types[first] && !e.has(first, second):
		return first + "." + second
	}
	return ""
}

func TestANameThatDoesNotExistIsFound(t *testing.T) {
	all := exports(t)
	require.Equal(t, "backoff.Patience", all.missing("backoff", "Patience", ""))
	require.Equal(t, "Policy.Patience", all.missing("backoff", "Policy", "Patience"))
	require.Equal(t, "Transport.Guards", all.missing("Transport", "Guards", ""))
	require.Empty(t, all.missing("guard", "Service", "Do"))
	require.Empty(t, all.missing("Exponential", "Initial", ""))
	require.Empty(t, all.missing("http", "NoSuchName", ""), "of another library")
}
