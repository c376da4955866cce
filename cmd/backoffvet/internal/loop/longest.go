package loop

import (
	"go/ast"
	"go/token"
	"go/types"
	"time"

	"golang.org/x/tools/go/types/typeutil"
)

// Longest returns a bound of a wait of the loop, if one can be seen: that of a constant, of a
// variable that is set once, of a random number, or of what is computed from those.
func (l *Loop) Longest(w *Wait) (time.Duration, bool) {
	if w.Duration == nil {
		return 0, false
	}
	return l.most(w.Duration, 5)
}

func (l *Loop) most(e ast.Expr, steps int) (time.Duration, bool) {
	e = ast.Unparen(e)
	if n, ok := constantOf(l.info, e); ok || steps == 0 {
		return n, ok
	}
	switch e := e.(type) {
	case *ast.Ident:
		return l.mostOf(varOf(l.info, e), steps)
	case *ast.BinaryExpr:
		x, okX := l.most(e.X, steps-1)
		y, okY := l.most(e.Y, steps-1)
		return combine(e.Op, x, y, okX && okY)
	case *ast.CallExpr:
		if len(e.Args) == 1 && (l.info.Types[e.Fun].IsType() || isRandom(l.info, e)) {
			return l.most(e.Args[0], steps-1)
		}
	}
	return 0, false
}

func combine(op token.Token, x, y time.Duration, ok bool) (time.Duration, bool) {
	switch op {
	case token.MUL:
		return x * y, ok
	case token.ADD:
		return x + y, ok
	case token.QUO:
		return x, ok
	}
	return 0, false
}

func (l *Loop) mostOf(v *types.Var, steps int) (time.Duration, bool) {
	if v != nil && v == l.Counter {
		return l.Limit()
	}
	if v == nil {
		return 0, false
	}
	if set := l.Assigned(v); len(set) == 1 {
		return l.most(set[0], steps-1)
	}
	return 0, false
}

// Limit returns the bound of the counter, if it is a constant.
func (l *Loop) Limit() (time.Duration, bool) {
	switch s := l.Stmt.(type) {
	case *ast.RangeStmt:
		return l.Constant(s.X)
	case *ast.ForStmt:
		if cond, ok := s.Cond.(*ast.BinaryExpr); ok && varOf(l.info, cond.X) == l.Counter {
			return l.Constant(cond.Y)
		}
	}
	return 0, false
}

func isRandom(info *types.Info, call *ast.CallExpr) bool {
	f := typeutil.Callee(info, call)
	return f != nil && f.Pkg() != nil && (f.Pkg().Path() == "math/rand" || f.Pkg().Path() == "math/rand/v2")
}
