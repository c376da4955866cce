package library

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ast/inspector"
)

// values are what the variables of a package are set to.
type values struct {
	info   *types.Info
	whole  map[types.Object][]value
	fields map[types.Object]map[string][]value
}

// A value is what a variable is set to at a place in the code: an expression, or one of the results
// of a call, or something that neither shows.
type value struct {
	at   token.Pos
	expr ast.Expr
	from ast.Expr
}

func collectValues(root inspector.Cursor, info *types.Info) values {
	v := values{info, map[types.Object][]value{}, map[types.Object]map[string][]value{}}
	kinds := []ast.Node{(*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil), (*ast.RangeStmt)(nil), (*ast.Field)(nil)}
	for c := range root.Preorder(kinds...) {
		switch n := c.Node().(type) {
		case *ast.AssignStmt:
			v.setAll(n.Lhs, n.Rhs)
		case *ast.ValueSpec:
			v.declare(n)
		case *ast.RangeStmt:
			v.setAll([]ast.Expr{n.Key, n.Value}, nil)
		case *ast.Field:
			v.setAll(expressions(n.Names), nil)
		}
	}
	return v
}

// declare sets variables without a value to the empty literal of their type.
func (v values) declare(spec *ast.ValueSpec) {
	if len(spec.Values) > 0 || spec.Type == nil {
		v.setAll(expressions(spec.Names), spec.Values)
		return
	}
	for _, name := range spec.Names {
		zero := &ast.CompositeLit{Type: spec.Type, Lbrace: spec.End(), Rbrace: spec.End()}
		v.set(name, value{at: spec.Pos(), expr: zero})
	}
}

func expressions(names []*ast.Ident) []ast.Expr {
	list := make([]ast.Expr, len(names))
	for i, name := range names {
		list[i] = name
	}
	return list
}

func (v values) setAll(to, from []ast.Expr) {
	for i, e := range to {
		switch {
		case e == nil:
		case len(from) == len(to):
			v.set(e, value{at: e.Pos(), expr: from[i], from: from[i]})
		case len(from) == 1:
			v.set(e, value{at: e.Pos(), from: from[0]})
		default:
			v.set(e, value{at: e.Pos()})
		}
	}
}

func (v values) set(to ast.Expr, what value) {
	switch to := ast.Unparen(to).(type) {
	case *ast.Ident:
		if obj := v.info.ObjectOf(to); obj != nil {
			v.whole[obj] = append(v.whole[obj], what)
		}
	case *ast.SelectorExpr:
		if id, ok := ast.Unparen(to.X).(*ast.Ident); ok && v.info.ObjectOf(id) != nil {
			v.setField(v.info.ObjectOf(id), to.Sel.Name, what)
		}
	}
}

func (v values) setField(obj types.Object, field string, to value) {
	if v.fields[obj] == nil {
		v.fields[obj] = map[string][]value{}
	}
	v.fields[obj][field] = append(v.fields[obj][field], to)
}

// only returns the one value that a variable has, or nil if it has several or the code does not
// show it.
func (v values) only(obj types.Object) ast.Expr {
	if all := v.whole[obj]; obj != nil && len(all) == 1 {
		return all[0].expr
	}
	return nil
}

// lastCall returns the call whose result a variable has at a place, or nil: the one that is written
// last before it.
func (v values) lastCall(obj types.Object, at token.Pos) *ast.CallExpr {
	var last value
	for _, set := range v.whole[obj] {
		if set.at < at && set.at >= last.at {
			last = set
		}
	}
	call, _ := last.from.(*ast.CallExpr)
	return call
}
