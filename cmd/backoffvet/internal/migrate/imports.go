package migrate

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/astutil"
)

// imports are the packages that new texts use, by their names.
var imports = map[string]string{
	"backoff": root,
	"cmp":     "cmp",
	"context": "context",
	"errors":  "errors",
	"time":    "time",
}

var marked = regexp.MustCompile(packageMark + `(\w+)`)

// result is the new text of the file, formatted, with the imports that it needs and no others.
func (f *file) result() ([]byte, error) {
	names, used := f.packageNames(), map[string]bool{}
	text := marked.ReplaceAllStringFunc(f.edited(), func(m string) string {
		used[m[1:]] = true
		return names[m[1:]]
	})
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, f.name, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, spec := range f.syntax.Imports {
		if pkg := f.info.PkgNameOf(spec); pkg.Name() != "_" && pkg.Name() != "." && !f.needs(pkg, syntax) {
			name := ""
			if spec.Name != nil {
				name = spec.Name.Name
			}
			astutil.DeleteNamedImport(fset, syntax, name, pkg.Imported().Path())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		alias := names[name]
		if alias == path.Base(imports[name]) {
			alias = ""
		}
		if f.imported(imports[name]) == nil {
			astutil.AddNamedImport(fset, syntax, alias, imports[name])
		}
	}
	var out bytes.Buffer
	if err := format.Node(&out, fset, syntax); err != nil {
		return nil, err
	}
	return format.Source(out.Bytes())
}

// needs reports whether the new text uses an old import. The old library is only used where no edit
// is: what is copied does not mention it.
func (f *file) needs(pkg *types.PkgName, syntax *ast.File) bool {
	if strings.HasPrefix(pkg.Imported().Path(), old) {
		return f.remains(pkg)
	}
	return slices.ContainsFunc(syntax.Unresolved, func(id *ast.Ident) bool { return id.Name == pkg.Name() })
}

// packageNames are the names of the packages that new texts use: those of their imports if the file
// has them, or their own, or with "go" before it where something else has that name.
func (f *file) packageNames() map[string]string {
	names := map[string]string{}
	for name, path := range imports {
		names[name] = name
		if pkg := f.imported(path); pkg != nil {
			names[name] = pkg.Name()
		} else if f.taken(name) {
			names[name] = "go" + name
		}
	}
	return names
}

// taken reports whether a name means something in the file, and is not that of an import that goes.
func (f *file) taken(name string) bool {
	for id, obj := range f.info.Defs {
		_, isImport := obj.(*types.PkgName)
		if id.Name == name && f.parents[id] != nil && !isImport && obj != nil && obj.Parent() != nil {
			return true
		}
	}
	return f.pkg.Scope().Lookup(name) != nil || slices.ContainsFunc(f.syntax.Imports, func(spec *ast.ImportSpec) bool {
		pkg := f.info.PkgNameOf(spec)
		return pkg.Name() == name && f.remains(pkg)
	})
}

// scope is the innermost scope at a position.
func (f *file) scope(pos token.Pos) *types.Scope {
	file := f.info.Scopes[f.syntax]
	if inner := file.Innermost(pos); inner != nil {
		return inner
	}
	return file
}

// remains reports whether the file uses an import outside of what its edits replace.
func (f *file) remains(pkg *types.PkgName) bool {
	for id, obj := range f.info.Uses {
		if obj == pkg && !f.gone(id.Pos()) {
			return true
		}
	}
	return false
}

// imported is the import of a path by a name, or nil.
func (f *file) imported(path string) *types.PkgName {
	for _, spec := range f.syntax.Imports {
		if pkg := f.info.PkgNameOf(spec); pkg.Imported().Path() == path && pkg.Name() != "." && pkg.Name() != "_" {
			return pkg
		}
	}
	return nil
}
