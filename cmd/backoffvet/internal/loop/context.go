package loop

import (
	"go/ast"
	"go/token"
	"go/types"
	"iter"
	"slices"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
)

// context returns the context that the loop should obey, or nil: the innermost that is declared
// before the loop, unless nothing ever cancels it. It also reports whether the loop's work is to
// outlive a context that it uses.
func (l *Loop) context(pkg *types.Package) (found *Signal, outlives bool) {
	for v := range l.before(pkg) {
		if remote.IsContext(v.Type()) && Uses(l.info, l.Body, v) && l.outlives(v) {
			return nil, true
		}
		if found == nil {
			found = l.contextOf(v)
		}
	}
	return found, false
}

// before has the variables that are declared before the loop, those of the innermost scope first.
func (l *Loop) before(pkg *types.Package) iter.Seq[*types.Var] {
	return func(yield func(*types.Var) bool) {
		for scope := pkg.Scope().Innermost(l.Stmt.Pos()); scope != nil && scope != pkg.Scope(); scope = scope.Parent() {
			for _, name := range scope.Names() {
				v, ok := scope.Lookup(name).(*types.Var)
				if ok && v.Pos() < l.Stmt.Pos() && name != "_" && !yield(v) {
					return
				}
			}
		}
	}
}

func (l *Loop) contextOf(v *types.Var) *Signal {
	switch {
	case !l.isParameter(v) && !Uses(l.info, l.Body, v):
		// The context of another function, or one that the function ends itself.
		return nil
	case remote.IsRequest(v.Type()) && v.Kind() == types.ParamVar:
		return l.contextSignal(v, v.Name()+".Context()")
	case remote.IsContext(v.Type()) && !l.outlives(v):
		return l.contextSignal(v, v.Name())
	}
	return nil
}

// isParameter reports whether a variable is a parameter of the function around the loop.
func (l *Loop) isParameter(v *types.Var) bool {
	params := l.Func.Type.Params
	return params.Pos() <= v.Pos() && v.Pos() < params.End()
}

// outlives reports whether a context never ends, or the loop works on after its end: it makes a
// context that does not end, or a statement before it waits for the end.
func (l *Loop) outlives(v *types.Var) bool {
	return l.neverEnds(v) || l.makesEndless(l.Body) || l.afterEnd(v)
}

func (l *Loop) neverEnds(v *types.Var) bool {
	return slices.ContainsFunc(l.Assigned(v), func(e ast.Expr) bool {
		call, ok := ast.Unparen(e).(*ast.CallExpr)
		if !ok {
			return false
		}
		return isEndless(l.info, call) || len(call.Args) > 0 && l.makes(call.Args[0], "context.WithoutCancel") ||
			l.makes(call, "context.WithCancel") && l.makes(call.Args[0], "context.Background") && l.endsInDefer(call)
	})
}

// endsInDefer reports whether only a defer calls the function that ends a context.
func (l *Loop) endsInDefer(made *ast.CallExpr) bool {
	only := true
	ast.Inspect(l.Func.Outer, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != 2 || assign.Rhs[0] != made {
			return true
		}
		cancel := VarOf(l.info, assign.Lhs[1])
		ast.Inspect(l.Func.Outer, func(n ast.Node) bool {
			name, ok := n.(*ast.Ident)
			only = only && (!ok || cancel == nil || l.info.Uses[name] != cancel)
			_, isDefer := n.(*ast.DeferStmt)
			return !isDefer
		})
		return false
	})
	return only
}

// makes reports whether an expression is a call of one of the functions named.
func (l *Loop) makes(e ast.Expr, names ...string) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := typeutil.Callee(l.info, call).(*types.Func)
	return ok && slices.Contains(names, f.FullName())
}

func isEndless(info *types.Info, call *ast.CallExpr) bool {
	f, ok := typeutil.Callee(info, call).(*types.Func)
	return ok && slices.Contains([]string{"context.Background", "context.TODO", "context.WithoutCancel"}, f.FullName())
}

func (l *Loop) makesEndless(n ast.Node) bool {
	return HasAnywhere(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		return ok && isEndless(l.info, call)
	})
}

// afterEnd reports whether the end of a context is what leads to the loop: a receive before it, in
// statements that do not leave.
func (l *Loop) afterEnd(ctx *types.Var) bool {
	found := false
	Inspect(l.Func.Body, func(n ast.Node) bool {
		list := Statements(n)
		for _, s := range statementsOf(n, list) {
			found = found || s.End() < l.Stmt.Pos() && l.receives(s, ctx) &&
				(within(l.Stmt, n) || !leaves(l.info, list, token.CONTINUE))
		}
		return !found
	})
	return found
}

// statementsOf returns the statements of a list, with what leads to them where they are a case.
func statementsOf(n ast.Node, list []ast.Stmt) []ast.Stmt {
	if c, ok := n.(*ast.CommClause); ok && c.Comm != nil && len(list) > 0 {
		return append([]ast.Stmt{c.Comm}, list...)
	}
	return list
}

// receives reports whether a statement is a receive from a context.
func (l *Loop) receives(s ast.Stmt, ctx *types.Var) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	receive, ok := e.X.(*ast.UnaryExpr)
	return ok && receive.Op == token.ARROW && Uses(l.info, receive.X, ctx)
}
