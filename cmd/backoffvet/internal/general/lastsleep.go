package general

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

var lastSleep = ruleOfLoops("lastsleep",
	"report retries that sleep after their last attempt", lastSleeps)

func lastSleeps(p *rule.Pass, l *loop.Loop) {
	if l.Kind != loop.Retry && l.Kind != loop.Poll {
		return
	}
	if triesAfter(p, l) {
		return
	}
	for _, a := range l.Attempts {
		for end, cond := range a.Ends {
			if mayFail(a, end) && !inLoop(l, end.Wait) && isLong(l, end.Wait) && givesUpLate(p, l, a, end, cond) && !isNotYet(cond) && !looksAgain(p, l, end.Wait) {
				p.Report(end.Wait.Node, "the loop sleeps here after its last attempt, too, and then only gives up: leave it before the sleep, or sleep before each attempt but the first")
			}
		}
	}
}

// mayFail reports whether a round that nobody counted may end so with a failure. Whether something
// is there yet is none.
func mayFail(a *loop.Attempt, end loop.End) bool {
	return (end.Outcome != loop.Succeeded || a.Answers) && !a.Truth && !end.Counted
}

// givesUpLate reports whether the loop waits and then gives up, since that was its last round: its
// header says so, unless its last delay is none, or a condition behind the wait. A loop that counts
// down what a setting allows makes many rounds, as a rule.
func givesUpLate(p *rule.Pass, l *loop.Loop, a *loop.Attempt, end loop.End, cond ast.Expr) bool {
	switch end.Way {
	case loop.Exhausted:
		rounds, few := l.Limit()
		_, known := l.Longest(end.Wait)
		return l.Bounded() && !endsInNone(p, l) && (known || !l.CountsDown()) && !isOneOfMany(l, end.Wait, rounds, few)
	case loop.Left:
		return end.Late && end.Outcome == loop.Failed && !comparesWithMany(p, l, end.Wait, cond)
	case loop.Again:
		counts := countsFirst(l)
		return (end.Outcome != loop.Succeeded || a.Answers) && counts != nil && !comparesWithMany(p, l, end.Wait, counts)
	}
	return false
}

// countsFirst returns the condition by which a round begins that leaves the loop after a number of
// rounds, or nil.
func countsFirst(l *loop.Loop) ast.Expr {
	for _, s := range l.Body.List {
		if s.End() > l.Attempts[0].Node.Pos() {
			return nil
		}
		i, ok := s.(*ast.IfStmt)
		if !ok || !l.CountsRounds(i.Cond) || len(i.Body.List) == 0 {
			continue
		}
		b, isBranch := i.Body.List[len(i.Body.List)-1].(*ast.BranchStmt)
		if returns(i.Body.List) || isBranch && b.Tok == token.BREAK {
			return i.Cond
		}
	}
	return nil
}

// isNotYet reports whether a condition singles out that something is not there yet: the loop waits
// for that, and retries no failure.
func isNotYet(cond ast.Expr) bool { return cond != nil && absent.MatchString(types.ExprString(cond)) }

var absent = regexp.MustCompile(`(?i)not_?(yet|found|exist|ready|available)|pending`)

// endsInNone reports whether the last delay of the table that the loop is over is none.
func endsInNone(p *rule.Pass, l *loop.Loop) bool {
	r, ok := l.Stmt.(*ast.RangeStmt)
	if !ok {
		return false
	}
	e := r.X
	if v := loop.VarOf(p.TypesInfo, e); v != nil {
		if set := l.Assigned(v); len(set) == 1 {
			e = set[0]
		}
	}
	table, ok := e.(*ast.CompositeLit)
	if !ok || len(table.Elts) == 0 {
		return false
	}
	last, ok := l.Constant(table.Elts[len(table.Elts)-1])
	return ok && last < shortest
}

// comparesWithMany reports whether a condition compares with a constant so large that the last
// sleep is a small part of all.
func comparesWithMany(p *rule.Pass, l *loop.Loop, w *loop.Wait, cond ast.Expr) bool {
	return loop.Has(cond, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		most, known := l.Constant(e)
		return ok && known && p.TypesInfo.Types[e].Value != nil && isOneOfMany(l, w, most, known)
	})
}

// isOneOfMany reports whether a loop has so many rounds that its last sleep is a small part of the
// time that it takes: twenty, or where it sleeps for a second ten, or a number that is not known.
func isOneOfMany(l *loop.Loop, w *loop.Wait, rounds time.Duration, few bool) bool {
	d, known := l.Longest(w)
	return few && rounds >= 20 && !l.Grows(w) || (!few || rounds >= 10) && known && d <= shortest
}

// inLoop reports whether a wait is that of another loop in the loop.
func inLoop(l *loop.Loop, w *loop.Wait) bool {
	return w != nil && loop.Has(l.Body, func(n ast.Node) bool {
		_, isFor := n.(*ast.ForStmt)
		return isFor && n.Pos() < w.Node.Pos() && w.Node.End() < n.End()
	})
}

// looksAgain reports whether a statement behind a wait looks once more, and may end the loop well:
// the last wait is for that.
func looksAgain(p *rule.Pass, l *loop.Loop, w *loop.Wait) bool {
	behind := slices.IndexFunc(l.Body.List, func(s ast.Stmt) bool { return s.Pos() == w.Node.Pos() }) + 1
	return behind > 0 && slices.ContainsFunc(l.Body.List[behind:], func(s ast.Stmt) bool {
		return loop.Has(s, func(n ast.Node) bool {
			r, ok := n.(*ast.ReturnStmt)
			return ok && s.Pos() != n.Pos() && len(r.Results) > 0 && p.TypesInfo.Types[r.Results[len(r.Results)-1]].IsNil()
		})
	})
}

func isLong(l *loop.Loop, w *loop.Wait) bool {
	if w == nil || w.Hidden && w.Duration == nil && !strings.Contains(loop.Name(w.Node.(*ast.CallExpr)), "leep") {
		return false
	}
	d, ok := l.Longest(w)
	return !ok || d >= shortest
}

// triesAfter reports whether the function makes such an attempt behind the loop, too, or goes on as
// if nothing had failed.
func triesAfter(p *rule.Pass, l *loop.Loop) bool {
	next := l.Next()
	if next == nil {
		return l.Bounded() && l.Func.Type.Results == nil
	}
	if _, isReturn := next.(*ast.ReturnStmt); l.Kind == loop.Poll && !isReturn {
		return true
	}
	return slices.ContainsFunc(l.Attempts, func(a *loop.Attempt) bool {
		return callsBehind(p.TypesInfo, l, a.Call) || !knowsBehind(l, a)
	})
}

// knowsBehind reports whether the code behind the loop may know how the last attempt ended: the
// loop itself returns after a success, or the error lives longer than the loop.
func knowsBehind(l *loop.Loop, a *loop.Attempt) bool {
	_, ends := l.Next().(*ast.ReturnStmt)
	return ends || a.Err == nil || a.Err.Pos() < l.Stmt.Pos() || l.Stmt.End() <= a.Err.Pos() ||
		loop.Has(l.Body, func(n ast.Node) bool { _, ok := n.(*ast.ReturnStmt); return ok })
}

func callsBehind(info *types.Info, l *loop.Loop, call *ast.CallExpr) bool {
	f := typeutil.Callee(info, call)
	return f != nil && loop.Has(l.Func.Body, func(n ast.Node) bool {
		again, ok := n.(*ast.CallExpr)
		return ok && again.Pos() > l.Stmt.End() && typeutil.Callee(info, again) == f
	})
}

func mentions(n ast.Node, name string) bool {
	return loop.HasAnywhere(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		return ok && id.Name == name
	})
}
