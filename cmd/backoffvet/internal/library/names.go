package library

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// module is the import path of the library.
const module = "github.com/gobackoff/backoff"

// inside returns the path of a package below the module of prefix, "" for the package of that name
// itself, and whether it is there.
func inside(pkg *types.Package, prefix string) (path string, ok bool) {
	if pkg == nil {
		return "", false
	}
	path, ok = strings.CutPrefix(pkg.Path(), prefix)
	if ok && path != "" {
		path, ok = strings.CutPrefix(path, "/")
	}
	return path, ok
}

// qualified returns the name of a package-level object of the library as its users write it, such
// as "Policy" or "hedge.Value", and "" for all other objects.
func qualified(obj types.Object) string {
	path, ok := inside(obj.Pkg(), module)
	switch {
	case !ok:
		return ""
	case path == "":
		return obj.Name()
	}
	return path + "." + obj.Name()
}

// typeName is qualified for the type of a value, or what it points to.
func typeName(t types.Type) string {
	if obj := typeObject(t); obj != nil {
		return qualified(obj)
	}
	return ""
}

// typeObject returns the name that declares a type, or what it points to, or nil.
func typeObject(t types.Type) *types.TypeName {
	if t == nil {
		return nil
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := types.Unalias(t).(*types.Named); ok {
		return n.Obj()
	}
	return nil
}

// isType reports whether t, or what it points to, is the named type of a package.
func isType(t types.Type, path, name string) bool {
	obj := typeObject(t)
	return obj != nil && obj.Pkg() != nil && obj.Pkg().Path() == path && obj.Name() == name
}

func isContext(t types.Type) bool {
	_, pointer := t.(*types.Pointer)
	return !pointer && isType(t, "context", "Context")
}

func isError(t types.Type) bool { return types.Identical(t, types.Universe.Lookup("error").Type()) }

// callee returns the function that a call calls, or nil.
func (m *model) callee(call *ast.CallExpr) *types.Func {
	if fn, ok := typeutil.Callee(m.info, call).(*types.Func); ok {
		return fn.Origin()
	}
	return nil
}

// called returns the name of the function of the library that e calls, such as "DoValue" or
// "Policy.Do", and "" if it calls none.
func (m *model) called(e ast.Expr) string {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return ""
	}
	fn := m.callee(call)
	switch {
	case fn == nil:
		return ""
	case fn.Signature().Recv() == nil:
		return qualified(fn)
	}
	recv := typeName(fn.Signature().Recv().Type())
	if recv == "" {
		return ""
	}
	return recv + "." + fn.Name()
}

// calledElsewhere returns the package and the name of a function that is called, with the name of
// its receiver's type, such as "net/http" and "Client.Post".
func (m *model) calledElsewhere(call *ast.CallExpr) (path, name string) {
	fn := m.callee(call)
	if fn == nil || fn.Pkg() == nil {
		return "", ""
	}
	name = fn.Name()
	if recv := fn.Signature().Recv(); recv != nil {
		if obj := typeObject(recv.Type()); obj != nil {
			name = obj.Name() + "." + name
		}
	}
	return fn.Pkg().Path(), name
}

// receiver returns what a method is called on, or nil.
func receiver(call *ast.CallExpr) ast.Expr {
	if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
		return sel.X
	}
	return nil
}

// object returns the object that an identifier stands for, or nil.
func (m *model) object(e ast.Expr) types.Object {
	if id, ok := ast.Unparen(e).(*ast.Ident); ok {
		return m.info.ObjectOf(id)
	}
	return nil
}

// declared returns the object, of some package, that a name or pkg.Name stands for, or nil.
func (m *model) declared(e ast.Expr) types.Object {
	sel, ok := ast.Unparen(e).(*ast.SelectorExpr)
	if ok {
		e = sel.Sel
	}
	if obj := m.object(e); obj != nil && obj.Pkg() != nil {
		return obj
	}
	return nil
}

// pointed returns x for &x.
func pointed(e ast.Expr) ast.Expr {
	e = ast.Unparen(e)
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op.String() == "&" {
		return ast.Unparen(u.X)
	}
	return e
}

func isChannel(t types.Type) bool {
	_, ok := t.Underlying().(*types.Chan)
	return ok
}
