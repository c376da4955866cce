package general

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"time"

	"golang.org/x/tools/go/analysis/passes/inspect"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

var deafSleep = rule.New("deafsleep", "report retries that sleep although a context in scope may end",
	func(p *rule.Pass) {
		for _, l := range loop.Of(p.Pass) {
			deafSleeps(p, l)
		}
		deafRetries(p)
	}, loop.Analyzer, inspect.Analyzer)

// shortest is the shortest sleep that is worth a finding.
const shortest = time.Second

func deafSleeps(p *rule.Pass, l *loop.Loop) {
	if l.Items {
		return
	}
	signal := l.Signal(p.Pkg)
	if signal == nil || l.Kind == loop.Other && !l.Asks(signal) && (signal.Var == nil || !works(l, signal.Var)) {
		return
	}
	for _, w := range l.Waits {
		if (tellsHowLong(p, w) || hearsOthers(p, w, signal)) && (!inCase(p, l, w.Node) || behindFailure(p, l, w)) && (isLong(l, w) && !isBrief(p, l, w, signal) || isEndless(p, l, signal)) {
			p.Report(w.Node, "this sleep "+goesOn(signal), hearing(p, l, w, signal)...)
		}
	}
}

func goesOn(s *loop.Signal) string {
	if s.Done == "" {
		return fmt.Sprintf("is not cut short where %s changes: wait in a select, for a channel that is closed then, too", s.Expr)
	}
	return fmt.Sprintf("goes on after %s has ended: wait in a select, for %s, too", s.Expr, s.Done)
}

// asksInTime reports whether the loop itself asks in each round for a signal that a wait can hear.
func asksInTime(l *loop.Loop, s *loop.Signal) bool { return s.Done != "" && l.Asks(s) }

// isBrief reports whether nobody notices that a wait is deaf: one of a second, where the loop may
// end behind it, or those of a loop that is over soon. What is no context ends only waits of more
// than a second, for another attempt after a failure.
func isBrief(p *rule.Pass, l *loop.Loop, w *loop.Wait, s *loop.Signal) bool {
	d, known := l.Longest(w)
	rounds, few := l.Limit()
	again := func(o loop.Outcome) bool {
		return slices.ContainsFunc(l.Attempts, func(a *loop.Attempt) bool {
			return a.WaitsAgain(w, o) || beforeRetry(l, w, a) && a.MayEnd(loop.Again, o)
		})
	}
	switch {
	case known && d <= shortest*5/4 && endsBehind(p, l, w, s): // with some jitter
		return true
	case asksInTime(l, s):
	case l.Kind == loop.Other && l.Asks(s):
		_, setting := w.Duration.(*ast.SelectorExpr)
		return known && d <= soon || !known && !setting
	case s.Var == nil || s.OfType || l.Kind == loop.Worker && again(loop.Succeeded):
		return !again(loop.Failed)
	}
	return known && few && d*rounds <= soon
}

// beforeRetry reports whether a condition before an attempt decides on a wait, such as whether this
// is not the first one.
func beforeRetry(l *loop.Loop, w *loop.Wait, a *loop.Attempt) bool {
	return w.Node.End() <= a.Node.Pos() && loop.Has(l.Body, func(n ast.Node) bool {
		s, ok := n.(*ast.IfStmt)
		return ok && s.Body.Pos() < w.Node.Pos() && w.Node.End() < s.Body.End() && s.End() <= a.Node.Pos()
	})
}

// endsBehind reports whether the loop may end behind a wait of a second, or is not known to be of
// attempts under a context. Of a setting, a second is only the default.
func endsBehind(p *rule.Pass, l *loop.Loop, w *loop.Wait, s *loop.Signal) bool {
	if l.Asks(s) || s.Var == nil || s.OfType {
		return true
	}
	_, setting := w.Duration.(*ast.SelectorExpr)
	return (!setting || p.TypesInfo.Types[w.Duration].Value != nil) && (l.Kind == loop.Other || slices.ContainsFunc(l.Calls, leaves))
}

// soon is when a loop is over before anybody notices.
const soon = 5 * time.Second

// leaves reports whether a failure of a call may end the loop.
func leaves(a *loop.Attempt) bool { return a.MayEnd(loop.Left, loop.Failed) }

// isEndless reports whether nothing ends a retry but its success, which never comes when the
// context has ended.
func isEndless(p *rule.Pass, l *loop.Loop, s *loop.Signal) bool {
	f, ok := l.Stmt.(*ast.ForStmt)
	return ok && s.Var != nil && !s.OfType && (l.Kind == loop.Retry || l.Kind == loop.Poll) && !l.Asks(s) &&
		(f.Cond == nil || asksForError(p, f.Cond)) &&
		!slices.ContainsFunc(l.Calls, func(a *loop.Attempt) bool { return a.MayEnd(loop.Left, loop.Failed, loop.Unknown) }) &&
		!slices.ContainsFunc(l.Attempts, func(a *loop.Attempt) bool { return !loop.Uses(p.TypesInfo, a.Call, s.Var) })
}

// tellsHowLong reports whether a wait is deaf, and its length not left to a helper: that of a
// helper is often too short to matter. But one that gets the context, and ignores it, sleeps as
// long as it wants.
func tellsHowLong(p *rule.Pass, w *loop.Wait) bool {
	call, ok := w.Node.(*ast.CallExpr)
	return w.Deaf() && (!ok || w.Duration != nil || slices.ContainsFunc(call.Args, func(e ast.Expr) bool {
		return remote.IsContext(p.TypesInfo.TypeOf(e))
	}))
}

// hearsOthers reports whether a wait is cut short by other things than the signal, after which the
// loop goes on.
func hearsOthers(p *rule.Pass, w *loop.Wait, s *loop.Signal) bool {
	return w.Select != nil && s.Done != "" && !s.OfType && !slices.ContainsFunc(w.Select.Body.List, func(c ast.Stmt) bool {
		comm := c.(*ast.CommClause)
		return comm.Comm == nil || loop.Has(comm, func(n ast.Node) bool {
			b, isBranch := n.(*ast.BranchStmt)
			_, isReturn := n.(*ast.ReturnStmt)
			e, isExpr := n.(ast.Expr)
			return isReturn || isBranch && b.Tok != token.CONTINUE || isExpr && stops.MatchString(types.ExprString(e))
		})
	})
}

// stops matches what may be another signal to end.
var stops = regexp.MustCompile(`(?i)stop|done|quit|clos|exit|shut|cancel|term|kill|dead|ctx|context|sig`)

// works reports whether the function works under a context, and something else may end the loop,
// too: a job without an end is none of a retry.
func works(l *loop.Loop, ctx *types.Var) bool {
	return l.HandsOver(ctx) && loop.Has(l.Body, func(n ast.Node) bool {
		b, ok := n.(*ast.BranchStmt)
		_, isReturn := n.(*ast.ReturnStmt)
		return isReturn || ok && b.Tok == token.BREAK
	})
}

// inCase reports whether a node is what a case of a select does: what the select receives then
// paces it, unless that is an error.
func inCase(p *rule.Pass, l *loop.Loop, at ast.Node) bool {
	return loop.Has(l.Body, func(n ast.Node) bool {
		c, ok := n.(*ast.CommClause)
		return ok && c.Comm != nil && c.Colon < at.Pos() && at.End() <= c.End() && (!receivesError(p, c.Comm) || returns(c.Body))
	})
}

// returns reports whether statements end with a return.
func returns(list []ast.Stmt) bool {
	_, ok := list[len(list)-1].(*ast.ReturnStmt)
	return ok
}

// receivesError recognizes err := <-failed.
func receivesError(p *rule.Pass, comm ast.Stmt) bool {
	assign, ok := comm.(*ast.AssignStmt)
	return ok && loop.IsError(p.TypesInfo.TypeOf(assign.Lhs[0]))
}

// sleepOf returns the duration of a statement time.Sleep(d).
func sleepOf(w *loop.Wait) ast.Expr {
	call, ok := w.Node.(*ast.CallExpr)
	if !ok || w.Hidden || loop.Name(call) != "Sleep" {
		return nil
	}
	return w.Duration
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
