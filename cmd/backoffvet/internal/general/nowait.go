package general

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

var noWait = ruleOfLoops("nowait",
	"report paths of a retry loop that go on without the wait of its other paths", noWaits)

func noWaits(p *rule.Pass, l *loop.Loop) {
	if waiter := ongoing(p, l); waiter != "" && len(l.Waits) == 0 && !mentions(l.Body, "NextDelay") {
		p.Report(l.Stmt, fmt.Sprintf("nothing in this loop calls %s.Wait: where what it calls fails at once, it spins",
			waiter))
		return
	}
	if l.Kind == loop.Other || l.Items || endsByItself(p, l) {
		return
	}
	for _, a := range l.Attempts {
		if isPaced(l, a) || !waitsSomewhere(p, l, a) || !isAgain(p, l, a) {
			continue
		}
		for end, cond := range a.Ends {
			if spins(end, cond) && (asksForError(p, cond) || l.AsksFor(cond, a)) {
				p.Report(cond, fmt.Sprintf("after this failure of %s the loop goes on at once, while its other paths wait: wait here, too", loop.Name(a.Call)))
			}
		}
	}
}

// isAgain reports whether a loop does the same again after a failure, and no worker the next thing
// that it has to do: the call leaves the process, waits after other failures, or takes nothing that
// the round made.
func isAgain(p *rule.Pass, l *loop.Loop, a *loop.Attempt) bool {
	return l.Kind != loop.Worker || remote.Call(p.TypesInfo, a.Call) || waits(a) || !l.Makes(a.Call)
}

// isPaced reports whether a select that blocks, a receive, or a call that waits for the next thing
// to do comes before an attempt in each round, or is it, and does not wait by itself. A condition
// that is asked for is paced, too.
func isPaced(l *loop.Loop, a *loop.Attempt) bool {
	found := a.Truth || inCase(l, a.Call) || loop.Name(a.Call) == "Wait" || mentions(a.Call, "WaitForReady")
	loop.Inspect(l.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectStmt:
			found = found || n.End() < a.Call.Pos() && !slices.ContainsFunc(n.Body.List, func(c ast.Stmt) bool {
				return c.(*ast.CommClause).Comm == nil
			})
			return false
		case *ast.UnaryExpr:
			found = found || n.Op == token.ARROW && n.End() < a.Call.Pos()
		case *ast.CallExpr:
			found = found || n.End() <= a.Call.End() && blocking.MatchString(loop.Name(n)) && !(n == a.Call && waits(a))
		}
		return !found
	})
	return found
}

var blocking = regexp.MustCompile(`^(Accept|Read|Recv|Receive|Next|Poll|Dequeue|Pop|Consume|[Ww]ait(For|Until))`)

// spins reports whether a failure begins another round without a wait, and with nothing that makes
// this right: the last round, something mended, a kind of failure singled out.
func spins(end loop.End, cond ast.Expr) bool {
	return cond != nil && end.Way == loop.Again && end.Outcome == loop.Failed && end.Wait == nil && !end.Acted && !end.Counted
}

// endsByItself reports whether the header of a loop asks for an error, or for a flag that the loop
// sets, or counts the rounds of a worker: going on may then end it.
func endsByItself(p *rule.Pass, l *loop.Loop) bool {
	f, ok := l.Stmt.(*ast.ForStmt)
	return l.Kind == loop.Worker && l.Bounded() ||
		ok && f.Cond != nil && (asksForError(p, f.Cond) || asksForFlag(p, l, f.Cond))
}

func asksForFlag(p *rule.Pass, l *loop.Loop, cond ast.Expr) bool {
	return loop.HasAnywhere(cond, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		if !ok || !types.Identical(p.TypesInfo.TypeOf(name), types.Typ[types.Bool]) {
			return false
		}
		v := loop.VarOf(p.TypesInfo, name)
		return v != nil && slices.ContainsFunc(l.Assigned(v), func(e ast.Expr) bool { return l.Contains(e) })
	})
}

// waitsSomewhere reports whether the loop waits behind failures, and not before the attempt, where
// each round does.
func waitsSomewhere(p *rule.Pass, l *loop.Loop, a *loop.Attempt) bool {
	before := slices.ContainsFunc(l.Waits, func(w *loop.Wait) bool {
		return w.Node.Pos() < a.Call.Pos() && w.Node.Pos() > l.Body.Pos() && !behindFailure(p, l, w)
	})
	return !before && slices.ContainsFunc(l.Attempts, waits)
}

// waits reports whether the loop waits before another round behind an attempt.
func waits(a *loop.Attempt) bool {
	for end := range a.Ends {
		if end.Way == loop.Again && end.Wait != nil {
			return true
		}
	}
	return false
}

// behindFailure reports whether a wait is under an if that asks for an error.
func behindFailure(p *rule.Pass, l *loop.Loop, w *loop.Wait) bool {
	return loop.Has(l.Body, func(n ast.Node) bool {
		s, ok := n.(*ast.IfStmt)
		return ok && s.Body.Pos() < w.Node.Pos() && w.Node.End() < s.Body.End() && asksForError(p, s.Cond)
	})
}

// asksForError reports whether a condition looks at an error, which that of a context is not.
func asksForError(p *rule.Pass, cond ast.Expr) bool {
	return loop.HasAnywhere(cond, func(n ast.Node) bool {
		switch e := n.(type) {
		case *ast.Ident:
			v := loop.VarOf(p.TypesInfo, e)
			return v != nil && loop.IsError(v.Type())
		case *ast.CallExpr:
			t := p.TypesInfo.TypeOf(e)
			return t != nil && loop.IsError(t) && loop.Name(e) != "Err"
		}
		return false
	})
}

// ongoing returns b of for b.Ongoing(), if b has a method Wait.
func ongoing(p *rule.Pass, l *loop.Loop) string {
	f, ok := l.Stmt.(*ast.ForStmt)
	if !ok {
		return ""
	}
	call, ok := f.Cond.(*ast.CallExpr)
	if !ok || loop.Name(call) != "Ongoing" {
		return ""
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	method, _, _ := types.LookupFieldOrMethod(p.TypesInfo.TypeOf(s.X), true, p.Pkg, "Wait")
	if method == nil {
		return ""
	}
	return types.ExprString(s.X)
}
