package loop

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
)

// Context returns the variable of type context.Context that the loop should obey, or nil: the
// innermost that is declared before the loop, unless nothing ever cancels it.
func (l *Loop) Context(pkg *types.Package) *types.Var {
	for scope := pkg.Scope().Innermost(l.Stmt.Pos()); scope != nil && scope != pkg.Scope(); scope = scope.Parent() {
		for _, name := range scope.Names() {
			v, ok := scope.Lookup(name).(*types.Var)
			if ok && v.Pos() < l.Stmt.Pos() && remote.IsContext(v.Type()) && name != "_" && !l.neverEnds(v) {
				return v
			}
		}
	}
	return nil
}

// neverEnds reports whether a variable is made by context.Background, TODO or WithoutCancel.
func (l *Loop) neverEnds(v *types.Var) bool {
	found := false
	ast.Inspect(l.Func.Node, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != len(assign.Rhs) {
			return !found
		}
		for i, e := range assign.Lhs {
			call, ok := ast.Unparen(assign.Rhs[i]).(*ast.CallExpr)
			found = found || ok && varOf(l.info, e) == v && MakesEndless(l.info, call)
		}
		return !found
	})
	return found
}

// MakesEndless reports whether a call makes a context that nothing cancels.
func MakesEndless(info *types.Info, call *ast.CallExpr) bool {
	f, ok := typeutil.Callee(info, call).(*types.Func)
	return ok && slices.Contains([]string{"context.Background", "context.TODO", "context.WithoutCancel"}, f.FullName())
}

// Outlives reports whether the loop is about work that is to outlive its context: it makes a
// context that does, or a statement before it waits for the context's end, or a defer runs it.
func (l *Loop) Outlives(ctx *types.Var) bool {
	return l.makesEndless() || l.afterEnd(ctx)
}

func (l *Loop) makesEndless() bool {
	found := false
	ast.Inspect(l.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		found = found || ok && MakesEndless(l.info, call)
		return !found
	})
	return found
}

func (l *Loop) afterEnd(ctx *types.Var) bool {
	found := false
	Inspect(l.Func.Body, func(n ast.Node) bool {
		receive, ok := n.(*ast.UnaryExpr)
		if ok && receive.Op == token.ARROW && receive.End() < l.Stmt.Pos() && Uses(l.info, receive.X, ctx) {
			found = true
		}
		return !found
	})
	return found
}
