package migrate

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
)

// statement is the innermost statement around a node that is in a list of statements, or the
// declaration around it.
func (f *file) statement(n ast.Node) ast.Node {
	for parent := f.parents[n]; parent != nil; n, parent = parent, f.parents[parent] {
		if _, ok := n.(ast.Stmt); ok && loop.Statements(parent) != nil {
			return n
		}
		if _, ok := parent.(*ast.File); ok {
			return n
		}
	}
	return n
}

// function is the declaration around a node, or nil.
func (f *file) function(n ast.Node) *ast.FuncDecl {
	for ; n != nil; n = f.parents[n] {
		if decl, ok := n.(*ast.FuncDecl); ok {
			return decl
		}
	}
	return nil
}

// encloses reports whether one node is in another.
func encloses(outer, inner ast.Node) bool {
	return outer != nil && outer.Pos() <= inner.Pos() && inner.End() <= outer.End()
}

// each calls a function for all nodes of a kind.
func each[N ast.Node](root ast.Node, found func(N)) {
	ast.Inspect(root, func(n ast.Node) bool {
		if n, ok := n.(N); ok {
			found(n)
		}
		return true
	})
}

// uses returns where an object is used, in the order of the text.
func (f *file) usesOf(obj types.Object) []*ast.Ident {
	var all []*ast.Ident
	for id, o := range f.info.Uses {
		if o == obj {
			all = append(all, id)
		}
	}
	slices.SortFunc(all, func(a, b *ast.Ident) int { return int(a.Pos() - b.Pos()) })
	return all
}

// local returns the variable of a function that an expression is, or nil. A parameter is one, too.
func (f *file) local(e ast.Expr) *types.Var {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return nil
	}
	v, ok := f.info.ObjectOf(id).(*types.Var)
	if !ok || v.IsField() || v.Parent() == nil || v.Parent() == f.pkg.Scope() {
		return nil
	}
	return v
}

// definition returns the statement that defines a variable, alone, and its value.
func (f *file) definition(v *types.Var) (ast.Stmt, ast.Expr) {
	for id, obj := range f.info.Defs {
		if obj != v {
			continue
		}
		switch parent := f.parents[id].(type) {
		case *ast.AssignStmt:
			if len(parent.Lhs) == 1 && len(parent.Rhs) == 1 {
				return parent, parent.Rhs[0]
			}
		case *ast.ValueSpec:
			decl, _ := f.parents[parent].(*ast.GenDecl)
			stmt, _ := f.parents[decl].(*ast.DeclStmt)
			if stmt != nil && len(decl.Specs) == 1 && len(parent.Names) == 1 && len(parent.Values) == 1 {
				return stmt, parent.Values[0]
			}
		}
	}
	return nil, nil
}

// assigned reports whether a variable, or a field of this name, gets another value between two
// positions. What takes its address may do so anywhere.
func (f *file) assigned(obj types.Object, from, to token.Pos) bool {
	return slices.ContainsFunc(f.usesOf(obj), func(id *ast.Ident) bool {
		var e ast.Expr = id
		if sel, ok := f.parents[id].(*ast.SelectorExpr); ok && sel.Sel == id {
			e = sel
		}
		between := from < id.Pos() && id.Pos() < to
		switch parent := f.parents[e].(type) {
		case *ast.AssignStmt:
			return between && slices.Contains(parent.Lhs, e)
		case *ast.IncDecStmt:
			return between
		case *ast.UnaryExpr:
			return parent.Op == token.AND
		}
		return false
	})
}

// movable reports whether an expression may be evaluated at another place: it calls nothing but
// conversions, and none of its variables changes on the way, nor until a later position.
func (f *file) movable(e ast.Expr, to, until token.Pos) bool {
	ok := true
	from := min(e.Pos(), to)
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			ok = ok && f.harmless(n)
		case *ast.FuncLit, *ast.IndexExpr, *ast.StarExpr:
			ok = false
		case *ast.Ident:
			if v, isVar := f.info.Uses[n].(*types.Var); isVar && f.assigned(v, from, until) {
				ok = false
			}
		}
		return ok
	})
	return ok && f.means(e, to)
}

// harmless reports whether a call is a conversion, or of a function that only computes.
func (f *file) harmless(call *ast.CallExpr) bool {
	fun := f.info.Types[call.Fun]
	return fun.IsType() || fun.IsBuiltin() || slices.Contains([]string{"context.Background", "context.TODO"}, f.callee(call))
}

// means reports whether the names of an expression mean at a position what they mean where it is.
// Fields, methods and what the expression itself declares do so anywhere.
func (f *file) means(e ast.Expr, at token.Pos) bool {
	ok := true
	each(e, func(id *ast.Ident) {
		obj := f.info.Uses[id]
		if obj == nil || obj.Parent() == nil || obj.Pkg() != nil && obj.Pkg() != f.pkg || e.Pos() <= obj.Pos() && obj.Pos() < e.End() {
			return
		}
		_, there := f.scope(at).LookupParent(id.Name, at)
		ok = ok && there == obj
	})
	return ok
}

// callee is the path and the name of the function or method that is called, such as
// "context.Background" or "(*net/http.Client).Do", or "".
func (f *file) callee(call *ast.CallExpr) string {
	if fn, ok := typeutil.Callee(f.info, call).(*types.Func); ok {
		return fn.Origin().FullName()
	}
	return ""
}

// mentions reports whether an expression uses a package.
func (f *file) mentions(e ast.Node, path string) bool {
	found := false
	each(e, func(id *ast.Ident) {
		pkg, ok := f.info.Uses[id].(*types.PkgName)
		found = found || ok && pkg.Imported().Path() == path
	})
	return found
}
