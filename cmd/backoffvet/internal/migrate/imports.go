package migrate

import (
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bytes"

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
	names := f.packageNames()
	used := map[string]bool{}
	text := marked.ReplaceAllStringFunc(f.edited(), func(m string) string {
		used[m[1:]] = true
		return names[m[1:]]
	})
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, f.name, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	f.fixImports(fset, syntax, names, used)
	var out bytes.Buffer
	if err := format.Node(&out, fset, syntax); err != nil {
		return nil, err
	}
	return format.Source(out.Bytes())
}

// fixImports removes the imports that the new text does not use any more, and adds those it needs.
func (f *file) fixImports(fset *token.FileSet, syntax *ast.File, names map[string]string, used map[string]bool) {
	for _, spec := range f.syntax.Imports {
		path := importPath(spec)
		if pkg := f.importedAs(spec); pkg != nil && f.uses(pkg) && !usesName(syntax, pkg.Name(), f.ourName(names, used, pkg)) {
			astutil.DeleteNamedImport(fset, syntax, nameOf(spec), path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if f.imported(imports[name]) != nil {
			continue
		}
		alias := ""
		if names[name] != path.Base(imports[name]) {
			alias = names[name]
		}
		astutil.AddNamedImport(fset, syntax, alias, imports[name])
	}
}

// ourName reports whether one of the new names is that of an old import, whose uses are then ours.
func (f *file) ourName(names map[string]string, used map[string]bool, pkg *types.PkgName) bool {
	for name, as := range names {
		if used[name] && as == pkg.Name() && imports[name] != pkg.Imported().Path() {
			return true
		}
	}
	return false
}

// usesName reports whether a file uses a package of this name, if its uses are not ours.
func usesName(syntax *ast.File, name string, ours bool) bool {
	if ours {
		return false
	}
	return slices.ContainsFunc(syntax.Unresolved, func(id *ast.Ident) bool { return id.Name == name })
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

// taken reports whether something else has a name where a new text uses it.
func (f *file) taken(name string) bool {
	return slices.ContainsFunc(f.edits, func(e edit) bool {
		return strings.Contains(e.text, packageMark+name+".") && f.hides(name, e.start)
	})
}

// hides reports whether a name means something at a place, and is not that of an import that goes.
func (f *file) hides(name string, offset int) bool {
	pos := f.syntax.FileStart + token.Pos(offset)
	_, obj := f.scope(pos).LookupParent(name, pos)
	pkg, ok := obj.(*types.PkgName)
	return ok && f.remains(pkg) || !ok && obj != nil
}

// scope is the innermost scope at a position.
func (f *file) scope(pos token.Pos) *types.Scope {
	file := f.info.Scopes[f.syntax]
	if inner := file.Innermost(pos); inner != nil {
		return inner
	}
	return file
}

// uses reports whether the file used an import.
func (f *file) uses(pkg *types.PkgName) bool {
	for _, obj := range f.info.Uses {
		if obj == pkg {
			return true
		}
	}
	return false
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

// imported is the import of a path, or nil.
func (f *file) imported(path string) *types.PkgName {
	for _, spec := range f.syntax.Imports {
		if pkg := f.importedAs(spec); pkg != nil && importPath(spec) == path && pkg.Name() != "." && pkg.Name() != "_" {
			return pkg
		}
	}
	return nil
}

func (f *file) importedAs(spec *ast.ImportSpec) *types.PkgName {
	if spec.Name != nil {
		pkg, _ := f.info.Defs[spec.Name].(*types.PkgName)
		return pkg
	}
	pkg, _ := f.info.Implicits[spec].(*types.PkgName)
	return pkg
}

func importPath(spec *ast.ImportSpec) string {
	path, _ := strconv.Unquote(spec.Path.Value)
	return path
}

func nameOf(spec *ast.ImportSpec) string {
	if spec.Name == nil {
		return ""
	}
	return spec.Name.Name
}
