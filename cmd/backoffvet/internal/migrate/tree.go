package migrate

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// statement is the innermost statement around a node that is in a list of statements, or the
// declaration around it.
func (f *file) statement(n ast.Node) ast.Node {
	for parent := f.parents[n]; parent != nil; n, parent = parent, f.parents[parent] {
		if _, ok := n.(ast.Stmt); ok && listOf(parent) != nil {
			return n
		}
		if _, ok := parent.(*ast.File); ok {
			return n
		}
	}
	return n
}

// listOf is the list of statements of a node, or nil.
func listOf(n ast.Node) []ast.Stmt {
	switch n := n.(type) {
	case *ast.BlockStmt:
		return n.List
	case *ast.CaseClause:
		return n.Body
	case *ast.CommClause:
		return n.Body
	}
	return nil
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
	for _, id := range f.usesOf(obj) {
		var n ast.Node = id
		if sel, ok := f.parents[id].(*ast.SelectorExpr); ok && sel.Sel == id {
			n = sel
		}
		switch parent := f.parents[n].(type) {
		case *ast.AssignStmt:
			if e, ok := n.(ast.Expr); ok && slices.Contains(parent.Lhs, e) && from < id.Pos() && id.Pos() < to {
				return true
			}
		case *ast.IncDecStmt:
			if from < id.Pos() && id.Pos() < to {
				return true
			}
		case *ast.UnaryExpr:
			if parent.Op == token.AND {
				return true
			}
		}
	}
	return false
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
	if tv := f.info.Types[call.Fun]; tv.IsType() || tv.IsBuiltin() {
		return true
	}
	return slices.Contains([]string{"context.Background", "context.TODO"}, f.callee(call))
}

// means reports whether the names of an expression mean at a position what they mean where it is.
func (f *file) means(e ast.Expr, at token.Pos) bool {
	ok := true
	each(e, func(id *ast.Ident) {
		obj := f.info.Uses[id]
		if obj != nil && e.Pos() <= obj.Pos() && obj.Pos() < e.End() {
			return // its own
		}
		if sel, isSel := f.parents[id].(*ast.SelectorExpr); isSel && sel.Sel == id || obj == nil {
			return
		}
		if key, isKey := f.parents[id].(*ast.KeyValueExpr); isKey && key.Key == id {
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
	if fn, ok := f.info.Uses[calleeName(call)].(*types.Func); ok {
		return fn.Origin().FullName()
	}
	return ""
}

// calleeName is the identifier of what is called, or nil.
func calleeName(call *ast.CallExpr) *ast.Ident {
	fun := ast.Unparen(call.Fun)
	switch index := fun.(type) {
	case *ast.IndexExpr:
		fun = index.X
	case *ast.IndexListExpr:
		fun = index.X
	}
	switch fun := fun.(type) {
	case *ast.Ident:
		return fun
	case *ast.SelectorExpr:
		return fun.Sel
	}
	return nil
}

// fresh is a name like base that nothing in the function around a node has.
func (f *file) fresh(base string, n ast.Node) string {
	decl := f.function(n)
	taken := f.names[decl]
	if taken == nil {
		taken = map[string]bool{}
		f.names[decl] = taken
		if decl != nil {
			each(decl, func(id *ast.Ident) { taken[id.Name] = true })
		}
	}
	name := base
	for i := 2; taken[name] || f.pkg.Scope().Lookup(name) != nil; i++ {
		name = fmt.Sprint(base, i)
	}
	taken[name] = true
	return name
}

// mentions reports whether an expression uses a package.
func (f *file) mentions(e ast.Node, path string) bool {
	found := false
	each(e, func(id *ast.Ident) {
		obj := f.info.Uses[id]
		if pkg, ok := obj.(*types.PkgName); ok && pkg.Imported().Path() == path {
			found = true
		}
	})
	return found
}
