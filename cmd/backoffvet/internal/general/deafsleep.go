package general

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"time"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

var deafSleep = ruleOfLoops("deafsleep",
	"report retries that sleep although a context in scope may end", deafSleeps)

// shortest is the shortest sleep that is worth a finding.
const shortest = time.Second

func deafSleeps(p *rule.Pass, l *loop.Loop) {
	if l.Items() {
		return
	}
	signal := l.Signal(p.Pkg)
	if signal == nil || l.Kind == loop.Other && (signal.Var == nil || !asksHeader(p, l, signal) && !succeeds(l, signal.Var)) {
		return
	}
	for _, w := range l.Waits {
		if tellsHowLong(w) && isLong(l, w) && !inCase(l, w.Node) && !isBrief(p, l, w, signal) {
			p.Report(w.Node, "this sleep "+goesOn(signal), hearing(p, l, w, signal)...)
		}
	}
	if w := l.Ticks(); w != nil && l.Kind == loop.Retry && isLong(l, w) {
		p.Report(w.Node, "the wait for this ticker "+goesOn(signal))
	}
}

func goesOn(s *loop.Signal) string {
	if s.Done == "" {
		return fmt.Sprintf("is not cut short where %s changes: wait in a select, for a channel that is closed then, too", s.Expr)
	}
	return fmt.Sprintf("goes on after %s has ended: wait in a select, for %s, too", s.Expr, s.Done)
}

// isBrief reports whether nobody notices that a wait is deaf: one of a second, where the loop asks
// in each round, or those of a loop that is over soon. What is no context ends only waits of more
// than a second, for another attempt after a failure.
func isBrief(p *rule.Pass, l *loop.Loop, w *loop.Wait, s *loop.Signal) bool {
	d, known := l.Longest(w)
	if known && d <= shortest && (l.Asks(s) || slices.ContainsFunc(l.Calls(), func(a *loop.Attempt) bool {
		return loop.Uses(p.TypesInfo, a.Call, s.Var) && a.MayEnd(loop.Left, loop.Failed) && !a.MayEnd(loop.Again, loop.Failed)
	})) {
		return true
	}
	if s.Var == nil || s.OfType {
		return known && d <= shortest || !slices.ContainsFunc(l.Attempts, func(a *loop.Attempt) bool { return a.WaitsAgain(w, loop.Failed) })
	}
	if l.Kind == loop.Worker && slices.ContainsFunc(l.Attempts, func(a *loop.Attempt) bool { return a.WaitsAgain(w, loop.Succeeded) }) {
		return true // a job that is done from time to time
	}
	rounds, few := l.Limit()
	return known && few && d*rounds <= soon
}

// soon is when a loop is over before anybody notices.
const soon = 5 * time.Second

// tellsHowLong reports whether a wait is deaf, and its length not left to a helper: that of a
// helper is often too short to matter.
func tellsHowLong(w *loop.Wait) bool {
	_, call := w.Node.(*ast.CallExpr)
	return w.Deaf() && (!call || w.Duration != nil)
}

// succeeds reports whether the loop passes a context on, and the success of some call ends it.
func succeeds(l *loop.Loop, ctx *types.Var) bool {
	return l.Passes(ctx) && slices.ContainsFunc(l.Calls(), func(a *loop.Attempt) bool { return a.MayEnd(loop.Left, loop.Succeeded) })
}

// asksHeader reports whether a loop goes on while what its header hands the context to says no.
func asksHeader(p *rule.Pass, l *loop.Loop, s *loop.Signal) bool {
	f, ok := l.Stmt.(*ast.ForStmt)
	if !ok {
		return false
	}
	not, ok := f.Cond.(*ast.UnaryExpr)
	return ok && loop.Uses(p.TypesInfo, not.X, s.Var)
}

// inCase reports whether a node is what a case of a select does: what the select receives then
// paces it.
func inCase(l *loop.Loop, at ast.Node) bool {
	return loop.Has(l.Body, func(n ast.Node) bool {
		c, ok := n.(*ast.CommClause)
		return ok && c.Comm != nil && c.Colon < at.Pos() && at.End() <= c.End()
	})
}

// sleepOf returns the duration of a statement time.Sleep(d).
func sleepOf(w *loop.Wait) ast.Expr {
	call, ok := w.Node.(*ast.CallExpr)
	if !ok || w.Hidden || loop.Name(call) != "Sleep" {
		return nil
	}
	return w.Duration
}
