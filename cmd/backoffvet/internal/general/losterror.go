package general

import (
	"fmt"
	"go/ast"
	"go/types"
	"regexp"
	"slices"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

var lostError = ruleOfLoops("losterror",
	"report loops that give up without the error of their last attempt", losesErrors)

func losesErrors(p *rule.Pass, l *loop.Loop) {
	if l.Kind != loop.Retry && !l.Items || len(l.Attempts) == 0 || !returnsError(p, l.Func.Type) {
		return
	}
	gaveUp, ok := l.Next().(*ast.ReturnStmt)
	if ok && slices.ContainsFunc(l.Attempts, func(a *loop.Attempt) bool { return overwrites(p, l, a, gaveUp) }) {
		return
	}
	a := l.Attempts[len(l.Attempts)-1]
	if !givesUp(l, a) {
		gaveUp = givesUpInside(l, a)
	}
	if gaveUp != nil && isTheSame(p, l, a) && dropped(p, l, a) && saysNothing(p, l, gaveUp) {
		p.Report(gaveUp, fmt.Sprintf("the loop gives up here, and why %s failed is lost: keep the last error, and wrap it", loop.Name(a.Call)))
	}
}

// givesUpInside returns where a loop gives up that has counted its rounds, behind a failure or
// before the next attempt, or nil.
func givesUpInside(l *loop.Loop, a *loop.Attempt) (gaveUp *ast.ReturnStmt) {
	loop.Inspect(l.Body, func(n ast.Node) bool {
		if s, ok := n.(*ast.IfStmt); ok && len(s.Body.List) > 0 && l.CountsRounds(s.Cond) && !l.AsksFor(s.Cond, a) {
			if r, ok := s.Body.List[len(s.Body.List)-1].(*ast.ReturnStmt); ok && a.MayEnd(loop.Again, loop.Failed) {
				gaveUp = r
			}
		}
		return true
	})
	return gaveUp
}

// isTheSame reports whether each round does the same, or asks another server for it, so that the
// last error tells what is wrong.
func isTheSame(p *rule.Pass, l *loop.Loop, a *loop.Attempt) bool {
	return l.Items && remote.Call(p.TypesInfo, a.Call) || !l.Items && !a.Truth && !differs(p, l, a) && !adapts(l, a) && !hasOneError(p, l, a)
}

// givesUp reports whether the header of the loop ends it after a failure, and nothing before. A
// loop that waits for what is not there yet has no other failure.
func givesUp(l *loop.Loop, a *loop.Attempt) bool {
	exhausted := false
	for end, cond := range a.Ends {
		if end.Outcome != loop.Failed {
			continue
		}
		counted := end.Way == loop.Left && end.Wait == nil && (end.Counted || end.Broke && cond != nil && l.CountsRounds(cond))
		if counted && !end.Broke || isNotYet(cond) {
			return false
		}
		exhausted = exhausted || counted || end.Way == loop.Exhausted && l.Bounded()
	}
	return exhausted
}

// hasOneError reports whether a function of the package fails in one way only, or another as a
// rule, whose error then tells nothing more.
func hasOneError(p *rule.Pass, l *loop.Loop, a *loop.Attempt) bool {
	f, ways, made := l.Decl(a.Call), 0, false
	if f == nil {
		return looks.MatchString(loop.Name(a.Call))
	}
	loop.Inspect(f, func(n ast.Node) bool {
		r, ok := n.(*ast.ReturnStmt)
		if !ok || len(r.Results) == 0 {
			return true
		}
		if last := r.Results[len(r.Results)-1]; !p.TypesInfo.Types[last].IsNil() {
			call, isCall := last.(*ast.CallExpr)
			ways, made = ways+1, isCall && loop.Name(call) == "New" && len(call.Args) == 1
		}
		return true
	})
	return ways == 1 && made
}

// looks are the names of functions that look for a file or a program, which fail as it is not
// there.
var looks = regexp.MustCompile(`^(L?Stat|LookPath)$`)

// differs reports whether each attempt gets another name, number or password, which the loop makes:
// a failure then says little of the next.
func differs(p *rule.Pass, l *loop.Loop, a *loop.Attempt) bool {
	return slices.ContainsFunc(a.Call.Args, func(e ast.Expr) bool {
		v := loop.VarOf(p.TypesInfo, e)
		if v == nil || !l.Makes(e) {
			return false
		}
		t := v.Type().Underlying()
		if s, ok := t.(*types.Slice); ok {
			t = s.Elem().Underlying()
		}
		_, basic := t.(*types.Basic)
		return basic
	})
}

// adapts reports whether the loop changes what it tries next: the failure then says that it was too
// much, and not what is wrong.
func adapts(l *loop.Loop, a *loop.Attempt) bool {
	return loop.Has(l.Body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		return ok && assign.Pos() > a.Node.Pos() && slices.ContainsFunc(assign.Lhs, isPart)
	})
}

func isPart(e ast.Expr) bool {
	switch e.(type) {
	case *ast.SelectorExpr, *ast.IndexExpr, *ast.StarExpr:
		return true
	}
	return false
}

func returnsError(p *rule.Pass, f *ast.FuncType) bool {
	if f.Results == nil || len(f.Results.List) == 0 {
		return false
	}
	t := p.TypesInfo.TypeOf(f.Results.List[len(f.Results.List)-1].Type)
	return t != nil && loop.IsError(t)
}

// dropped reports whether nothing but conditions look at the error of an attempt.
func dropped(p *rule.Pass, l *loop.Loop, a *loop.Attempt) bool {
	if a.Err == nil || a.Err.Pos() < l.Func.Node.Pos() || l.Func.Node.End() < a.Err.Pos() {
		return a.Err == nil
	}
	looked := false
	set := map[*ast.Ident]bool{}
	var cond ast.Node
	ast.Inspect(l.Func.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			cond = n.Cond
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				name, _ := e.(*ast.Ident)
				set[name] = true
			}
		case *ast.BinaryExpr:
			return loop.VarOf(p.TypesInfo, n.X) != a.Err || !p.TypesInfo.Types[n.Y].IsNil()
		case *ast.ReturnStmt:
			return false
		case *ast.Ident:
			looked = looked || p.TypesInfo.Uses[n] == a.Err && !set[n]
		}
		return n == nil || n != cond
	})
	return !looked
}

// saysNothing reports whether a return is that of an error which has no variable in it that may
// tell of the last attempt.
func saysNothing(p *rule.Pass, l *loop.Loop, r *ast.ReturnStmt) bool {
	if len(r.Results) == 0 {
		return false
	}
	last := r.Results[len(r.Results)-1]
	if p.TypesInfo.Types[last].IsNil() && (l.Items || l.Contains(r)) || loop.MayFail(p.TypesInfo, last) {
		return false
	}
	return !loop.HasAnywhere(last, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		if !ok {
			return false
		}
		v := loop.VarOf(p.TypesInfo, name)
		return v != nil && v.Pos() > l.Func.Node.Pos() && v.Pos() < l.Func.Node.End() && isTelling(p, l, v)
	})
}

// isTelling reports whether a variable may hold what the loop learned: the loop sets it, but does
// not only count with it, or may change what it points to.
func isTelling(p *rule.Pass, l *loop.Loop, v *types.Var) bool {
	set := slices.ContainsFunc(l.Assigned(v), func(e ast.Expr) bool {
		return l.Contains(e) && loop.VarOf(p.TypesInfo, e) != v && p.TypesInfo.Types[e].Value == nil
	})
	_, basic := v.Type().Underlying().(*types.Basic)
	return set && v != l.Counter || !basic && !loop.IsError(v.Type()) && loop.Uses(p.TypesInfo, l.Stmt, v)
}

// A kept says what is in the variable of an attempt's error.
type kept struct{ failed, over, nothing bool }

// overwrites reports where another call that succeeds puts nil over the error of a failure, and the
// loop then gives up with it.
func overwrites(p *rule.Pass, l *loop.Loop, a *loop.Attempt, gaveUp *ast.ReturnStmt) bool {
	if a.Err == nil || a.Truth || a.Err.Pos() > l.Stmt.Pos() || !loop.Uses(p.TypesInfo, gaveUp, a.Err) {
		return false
	}
	var over *ast.CallExpr
	lost := false
	loop.Walk(l, a.Node, kept{}, loop.Walker[kept]{
		Step: func(k kept, n ast.Node) (kept, bool) {
			if other := overwriting(p, a, n); other != nil {
				over, k.over, k.nothing = other, true, loop.Name(other) == "Close"
			}
			return k, true
		},
		Branch: func(k kept, cond ast.Expr, is bool) (kept, bool) { return k.learn(l.Says(a, cond, is)) },
		End: func(k kept, way loop.Way, _ ast.Node) {
			lost = lost || way == loop.Exhausted && k.failed && k.nothing
		},
	})
	if lost && over != nil {
		p.Report(over, fmt.Sprintf("this puts nil over the error of %s, and if that was the last attempt the loop "+
			"gives up without a cause: use another variable", loop.Name(a.Call)))
	}
	return lost
}

// learn notes what a condition says of the variable.
func (k kept) learn(o loop.Outcome) (kept, bool) {
	switch {
	case o == loop.Unknown:
		return k, true
	case k.over:
		k.nothing = o == loop.Succeeded
		return k, true
	}
	k.failed = o == loop.Failed
	return k, k.failed
}

// overwriting returns the call whose error a statement puts into the variable of an attempt.
func overwriting(p *rule.Pass, a *loop.Attempt, n ast.Node) *ast.CallExpr {
	assign, ok := n.(*ast.AssignStmt)
	if !ok || n == a.Node || len(assign.Rhs) != 1 || loop.VarOf(p.TypesInfo, assign.Lhs[len(assign.Lhs)-1]) != a.Err {
		return nil
	}
	call, ok := assign.Rhs[0].(*ast.CallExpr)
	if !ok || wraps(p, call, a) {
		return nil
	}
	return call
}

// wraps reports whether a call makes an error of the one that it is given.
func wraps(p *rule.Pass, call *ast.CallExpr, a *loop.Attempt) bool {
	return loop.Uses(p.TypesInfo, call, a.Err)
}
