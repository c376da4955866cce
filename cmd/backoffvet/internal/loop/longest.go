package loop

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"time"

	"golang.org/x/tools/go/types/typeutil"
)

// Longest returns a bound of a wait of the loop, if one can be seen: that of a constant, of a
// variable that is set once or multiplied in each round, of a random number, or of what is computed
// from those. A random number counts as half of its bound, which it is at most half of the time.
func (l *Loop) Longest(w *Wait) (time.Duration, bool) {
	if w.inner != nil && w.inner.Duration != nil {
		return l.inside(w.Node.(*ast.CallExpr)).most(w.inner.Duration, 8)
	}
	return l.most(w.Duration, 8)
}

func (l *Loop) most(e ast.Expr, steps int) (time.Duration, bool) {
	if e == nil {
		return 0, false
	}
	e = ast.Unparen(e)
	if n, ok := constantOf(l.info, e); ok || steps <= 0 {
		return n, ok
	}
	switch e := e.(type) {
	case *ast.Ident, *ast.SelectorExpr:
		return l.mostOf(fieldOrVar(l.info, e), steps)
	case *ast.BinaryExpr:
		if e.Op == token.MUL && isFraction(l.info, e.X) {
			n, ok := l.most(e.Y, steps-1)
			return n / 2, ok
		}
		x, okX := l.most(e.X, steps-1)
		y, okY := l.most(e.Y, steps-1)
		return combine(e.Op, x, y, okX && okY)
	case *ast.CallExpr:
		return l.mostOfCall(e, steps)
	}
	return 0, false
}

// mostOfCall is most of what a call returns.
func (l *Loop) mostOfCall(e *ast.CallExpr, steps int) (time.Duration, bool) {
	switch {
	case Name(e) == "min":
		return l.least(e.Args, steps)
	case units[Name(e)] > 0 && len(e.Args) == 0:
		s, ok := e.Fun.(*ast.SelectorExpr)
		if !ok {
			return 0, false
		}
		n, ok := l.most(s.X, steps-1)
		return n / units[Name(e)], ok
	case Name(e) == "Add" && len(e.Args) == 1: // of time.Until(t.Add(d))
		return l.most(e.Args[0], steps-1)
	case l.prog.decls[typeutil.Callee(l.info, e)] != nil:
		return l.computed(e, steps)
	case len(e.Args) != 1 && !around.MatchString(Name(e)) || len(e.Args) == 0:
		return 0, false
	case Name(e) == "Until":
		if added, ok := ast.Unparen(e.Args[0]).(*ast.CallExpr); ok {
			return l.most(added, steps-1)
		}
	}
	n, ok := l.most(e.Args[0], steps-1)
	if isRandom(l.info, e) {
		return n / 2, ok
	}
	return n, ok && (l.info.Types[e.Fun].IsType() || around.MatchString(Name(e)))
}

// units are the methods of a duration that count units.
var units = map[string]time.Duration{"Nanoseconds": 1, "Microseconds": time.Microsecond, "Milliseconds": time.Millisecond}

// around are the names of functions that return a duration near the one that they are given.
var around = regexp.MustCompile(`(?i)jitter|around`)

// inside returns the loop as a function of the package sees it that it calls.
func (l *Loop) inside(call *ast.CallExpr) *Loop {
	f, _ := typeutil.Callee(l.info, call).(*types.Func)
	inner := *l
	inner.Func, inner.args = &Func{Outer: l.prog.decls[f]}, maps.Collect(maps.All(l.args))
	for i, arg := range call.Args[:min(len(call.Args), f.Signature().Params().Len())] {
		inner.args[f.Signature().Params().At(i)] = arg
	}
	return &inner
}

// computed returns a bound of what a function of the package returns.
func (l *Loop) computed(call *ast.CallExpr, steps int) (time.Duration, bool) {
	inner := l.inside(call)
	var results []ast.Expr
	Inspect(inner.Func.Outer, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) > 0 {
			results = append(results, r.Results[0])
		}
		return true
	})
	return inner.greatest(results, steps)
}

// greatest returns the greatest of some bounds, if all are known.
func (l *Loop) greatest(of []ast.Expr, steps int) (most time.Duration, known bool) {
	for _, e := range of {
		n, ok := l.most(e, steps-1)
		if !ok {
			return 0, false
		}
		most, known = max(most, n), true
	}
	return most, known
}

// least returns the least of the bounds that are known.
func (l *Loop) least(of []ast.Expr, steps int) (least time.Duration, known bool) {
	for _, e := range of {
		if n, ok := l.most(e, steps-1); ok && (!known || n < least) {
			least, known = n, true
		}
	}
	return least, known
}

// capped returns the bound that v = min(v, most) sets, or if v > most { v = most }, or that which
// if v < most { v *= 2 } goes beyond at most once.
func (l *Loop) capped(v *types.Var, steps int) (most time.Duration, known bool) {
	for _, e := range l.Assigned(v) {
		if call, ok := e.(*ast.CallExpr); ok && Name(call) == "min" && Uses(l.info, call, v) {
			return l.least(call.Args, steps-1)
		}
	}
	ast.Inspect(l.Func.Outer, func(n ast.Node) bool {
		s, ok := n.(*ast.IfStmt)
		if !ok || len(s.Body.List) != 1 {
			return true
		}
		cond, ok := s.Cond.(*ast.BinaryExpr)
		set, isSet := s.Body.List[0].(*ast.AssignStmt)
		if !ok || !isSet || fieldOrVar(l.info, cond.X) != v || fieldOrVar(l.info, set.Lhs[0]) != v {
			return true
		}
		ops := []token.Token{token.GTR, token.GEQ}
		e, times := set.Rhs[0], time.Duration(1)
		if set.Tok != token.ASSIGN || Uses(l.info, e, v) {
			ops, e, times = []token.Token{token.LSS, token.LEQ}, cond.Y, 2
		}
		if slices.Contains(ops, cond.Op) {
			most, known = l.most(e, steps-1)
			most *= times
		}
		return true
	})
	return most, known
}

func combine(op token.Token, x, y time.Duration, ok bool) (time.Duration, bool) {
	switch op {
	case token.MUL:
		return x * y, ok
	case token.ADD:
		return x + y, ok
	case token.QUO, token.SUB:
		return x, ok
	case token.SHL:
		return x << min(max(y, 0), 30), ok
	}
	return 0, false
}

func (l *Loop) mostOf(v *types.Var, steps int) (time.Duration, bool) {
	if v != nil && v == l.Counter {
		return l.last()
	}
	if n, ok := l.values[v]; ok || v == nil {
		return n, ok
	}
	if n, ok := l.capped(v, steps); ok {
		return n, true
	}
	if arg := l.args[v]; arg != nil {
		return l.most(arg, steps-1)
	}
	switch set := slices.Concat(l.Assigned(v), l.prog.given(v)); {
	case v.IsField():
		return l.byDefault(set, steps)
	case len(set) == 1 || len(l.Assigned(v)) == 0:
		return l.greatest(set, steps)
	case len(set) == 2 && l.Contains(set[1]):
		return l.grown(v, set[0], steps)
	}
	return 0, false
}

// byDefault returns the longest that the package itself sets a field to: a setting may change that.
func (l *Loop) byDefault(set []ast.Expr, steps int) (most time.Duration, known bool) {
	for _, e := range set {
		n, ok := l.most(e, steps-1)
		most, known = max(most, n), known || ok && n > 0
	}
	return most, known
}

// Grows reports whether the loop multiplies the length of a wait, so that its last one is the
// longest.
func (l *Loop) Grows(w *Wait) bool {
	v := fieldOrVar(l.info, w.Duration)
	return v != nil && Has(l.Body, func(n ast.Node) bool {
		set, ok := n.(*ast.AssignStmt)
		return ok && fieldOrVar(l.info, set.Lhs[0]) == v && (set.Tok == token.MUL_ASSIGN || Uses(l.info, set.Rhs[0], v))
	})
}

// grown returns a bound of a variable that the loop sets to more than it was in each round.
func (l *Loop) grown(v *types.Var, first ast.Expr, steps int) (time.Duration, bool) {
	var more *ast.AssignStmt
	Inspect(l.Stmt, func(n ast.Node) bool {
		if set, ok := n.(*ast.AssignStmt); ok && set.Tok != token.DEFINE && VarOf(l.info, set.Lhs[0]) == v {
			more = set
		}
		return true
	})
	rounds, bounded := l.Limit()
	if !bounded || rounds > 100 {
		rounds = 100
	}
	most, ok := l.most(first, steps-1)
	for range rounds {
		next, known := l.grows(more, v, most, steps)
		switch {
		case !ok || !known:
			return 0, false
		case next == most || next >= time.Hour:
			return next, true
		}
		most = next
	}
	return most, ok && bounded
}

// grows returns what a variable is after an assignment.
func (l *Loop) grows(more *ast.AssignStmt, v *types.Var, was time.Duration, steps int) (time.Duration, bool) {
	inner := *l
	inner.values = map[*types.Var]time.Duration{v: was}
	switch {
	case more == nil:
		return 0, false
	case more.Tok == token.ASSIGN:
		return inner.most(more.Rhs[0], steps-1)
	}
	by, ok := inner.most(more.Rhs[0], steps-1)
	ops := map[token.Token]token.Token{token.MUL_ASSIGN: token.MUL, token.ADD_ASSIGN: token.ADD, token.SHL_ASSIGN: token.SHL}
	return combine(ops[more.Tok], was, by, ok)
}

// Limit returns the bound of the counter, if it is a constant.
func (l *Loop) Limit() (time.Duration, bool) {
	switch s := l.Stmt.(type) {
	case *ast.RangeStmt:
		return l.Constant(s.X)
	case *ast.ForStmt:
		if bound := l.bound(s.Cond); bound != nil {
			return l.Constant(bound.Y)
		}
	}
	return 0, false
}

// bound returns the upper bound of the counter that a condition has, or nil.
func (l *Loop) bound(cond ast.Expr) *ast.BinaryExpr {
	e, ok := cond.(*ast.BinaryExpr)
	switch {
	case !ok || l.Counter == nil:
		return nil
	case e.Op == token.LAND && l.bound(e.X) == nil:
		return l.bound(e.Y)
	case e.Op == token.LAND:
		return l.bound(e.X)
	case fieldOrVar(l.info, e.X) == l.Counter && (e.Op == token.LSS || e.Op == token.LEQ):
		return e
	}
	return nil
}

// last returns the last value of the counter, if its bound is a constant.
func (l *Loop) last() (time.Duration, bool) {
	limit, ok := l.Limit()
	if s, isFor := l.Stmt.(*ast.ForStmt); ok && isFor && l.bound(s.Cond).Op == token.LEQ {
		return limit, true
	}
	return limit - 1, ok
}

// isFraction recognizes rand.Float64().
func isFraction(info *types.Info, e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	return ok && len(call.Args) == 0 && isRandom(info, call)
}

func isRandom(info *types.Info, call *ast.CallExpr) bool {
	f := typeutil.Callee(info, call)
	return f != nil && f.Pkg() != nil && (f.Pkg().Path() == "math/rand" || f.Pkg().Path() == "math/rand/v2")
}
