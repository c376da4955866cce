package general

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

var noJitter = ruleOfLoops("nojitter",
	"report delays between remote attempts that are the same in every process", lackJitter)

func lackJitter(p *rule.Pass, l *loop.Loop) {
	if l.Kind != loop.Retry || !retriesRemote(p, l) {
		return
	}
	for _, w := range l.Waits {
		if w.Duration != nil && isFixed(p, l, w.Duration, 3) {
			p.Report(w.Node, "all clients that failed together wait equally long here, and come back together: "+
				"make a part of the delay random")
		}
	}
}

func retriesRemote(p *rule.Pass, l *loop.Loop) bool {
	return slices.ContainsFunc(l.Attempts, func(a *loop.Attempt) bool { return remote.Call(p.TypesInfo, a.Call) })
}

// isFixed reports whether a duration is made of constants, counters and variables of the function
// that are, some steps back.
func isFixed(p *rule.Pass, l *loop.Loop, e ast.Expr, steps int) bool {
	e = ast.Unparen(e)
	if p.TypesInfo.Types[e].Value != nil {
		return true
	}
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return isFixed(p, l, e.X, steps) && isFixed(p, l, e.Y, steps)
	case *ast.IndexExpr:
		return isFixed(p, l, e.X, steps)
	case *ast.CompositeLit:
		return !slices.ContainsFunc(e.Elts, func(e ast.Expr) bool { return p.TypesInfo.Types[e].Value == nil })
	case *ast.CallExpr:
		return computes(p, e) && !slices.ContainsFunc(e.Args, func(arg ast.Expr) bool { return !isFixed(p, l, arg, steps) })
	case *ast.Ident:
		return isFixedVar(p, l, loop.VarOf(p.TypesInfo, e), steps)
	}
	return false
}

func isFixedVar(p *rule.Pass, l *loop.Loop, v *types.Var, steps int) bool {
	if v != nil && v == l.Counter {
		return true
	}
	if v == nil || steps == 0 || v.Pkg() == nil || v.Parent() == v.Pkg().Scope() {
		return false
	}
	set := l.Assigned(v)
	return len(set) > 0 && !slices.ContainsFunc(set, func(e ast.Expr) bool {
		return !isFixed(p, l, e, steps-1) && !onlyItself(p, e, v)
	})
}

// onlyItself reports whether an expression is made of constants and the variable it is put into.
func onlyItself(p *rule.Pass, e ast.Expr, v *types.Var) bool {
	only := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			o := loop.VarOf(p.TypesInfo, n)
			only = only && (o == nil || o == v)
		case *ast.CallExpr:
			only = only && computes(p, n)
		}
		return only
	})
	return only
}

// computes reports whether a call is a conversion, or one of min, max and the functions of math.
func computes(p *rule.Pass, call *ast.CallExpr) bool {
	if p.TypesInfo.Types[call.Fun].IsType() {
		return true
	}
	switch f := typeutil.Callee(p.TypesInfo, call).(type) {
	case *types.Builtin:
		return true
	case *types.Func:
		return f.Pkg() != nil && f.Pkg().Path() == "math"
	}
	return false
}

var noCap = ruleOfLoops("nocap", "report delays that grow without a bound", lackCap)

func lackCap(p *rule.Pass, l *loop.Loop) {
	if l.Kind != loop.Retry && l.Kind != loop.Worker || isFew(p, l) {
		return
	}
	for _, w := range l.Waits {
		if w.Duration != nil && grows(p, l, w.Duration, 3) && !capped(p, l, w.Duration) {
			p.Report(w.Node, "this delay grows without a bound: after some failures it is hours, and then overflows; cap it, "+
				"with min(delay, limit)")
		}
	}
}

// grows reports whether a delay is a power of the number of attempts, or a variable that the loop
// multiplies.
func grows(p *rule.Pass, l *loop.Loop, e ast.Expr, steps int) bool {
	return comesFrom(p, l, e, steps, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			return n.Op == token.SHL && p.TypesInfo.Types[n].Value == nil && p.TypesInfo.Types[n.Y].Value == nil
		case *ast.CallExpr:
			return types.ExprString(n.Fun) == "math.Pow"
		case *ast.Ident:
			v := loop.VarOf(p.TypesInfo, n)
			return v != nil && loop.IsDuration(v.Type()) && isMultiplied(p, l, v)
		}
		return false
	})
}

func isMultiplied(p *rule.Pass, l *loop.Loop, v *types.Var) bool {
	found := false
	loop.Inspect(l.Stmt, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != 1 || loop.VarOf(p.TypesInfo, assign.Lhs[0]) != v {
			return !found
		}
		times, ok := ast.Unparen(assign.Rhs[0]).(*ast.BinaryExpr)
		found = found || assign.Tok == token.MUL_ASSIGN || assign.Tok == token.SHL_ASSIGN ||
			assign.Tok == token.ADD_ASSIGN && loop.Uses(p.TypesInfo, assign.Rhs[0], v) ||
			ok && times.Op == token.MUL && loop.Uses(p.TypesInfo, times, v)
		return !found
	})
	return found
}

// capped reports whether the function bounds something on the way to a delay: by min, or in a
// comparison other than that of the counter with a number of attempts.
func capped(p *rule.Pass, l *loop.Loop, e ast.Expr) bool {
	return calls(l.Func.Outer, "min") || comparesDurations(p, l) || comesFrom(p, l, e, 3, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		if !ok {
			return false
		}
		v := loop.VarOf(p.TypesInfo, name)
		return v != nil && !isWhole(v) && isCompared(p, l, v)
	})
}

// comparesDurations reports whether the loop compares some duration: how long it has waited, or
// will.
func comparesDurations(p *rule.Pass, l *loop.Loop) bool {
	found := false
	loop.Inspect(l.Stmt, func(n ast.Node) bool {
		b, ok := n.(*ast.BinaryExpr)
		found = found || ok && isOrdered(b) && loop.IsDuration(p.TypesInfo.TypeOf(b.X))
		return !found
	})
	return found
}

func isOrdered(b *ast.BinaryExpr) bool {
	return slices.Contains([]token.Token{token.LSS, token.GTR, token.LEQ, token.GEQ}, b.Op)
}

func isWhole(v *types.Var) bool {
	b, ok := v.Type().(*types.Basic)
	return ok && b.Info()&types.IsInteger != 0
}

func calls(n ast.Node, name string) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		found = found || ok && strings.EqualFold(loop.Name(call), name)
		return !found
	})
	return found
}

func isCompared(p *rule.Pass, l *loop.Loop, v *types.Var) bool {
	found := false
	ast.Inspect(l.Func.Outer, func(n ast.Node) bool {
		b, ok := n.(*ast.BinaryExpr)
		found = found || ok && isOrdered(b) && loop.Uses(p.TypesInfo, b, v)
		return !found
	})
	return found
}

// isFew reports whether something other than a large constant bounds the attempts: what a caller
// or a setting says is few, as a rule.
func isFew(p *rule.Pass, l *loop.Loop) bool {
	if r, ok := l.Stmt.(*ast.RangeStmt); ok {
		n, constant := l.Constant(r.X)
		return !constant || n <= 10
	}
	few := false
	loop.Inspect(l.Stmt, func(n ast.Node) bool {
		b, ok := n.(*ast.BinaryExpr)
		if ok && comparesNumbers(p, b) {
			limit, constant := l.Constant(b.Y)
			few = few || !constant || limit > 1 && limit <= 10
		}
		return !few
	})
	return few
}

func comparesNumbers(p *rule.Pass, b *ast.BinaryExpr) bool {
	t := p.TypesInfo.TypeOf(b.X)
	return t != nil && types.Identical(t.Underlying(), types.Typ[types.Int]) && b.Op != token.NEQ
}
