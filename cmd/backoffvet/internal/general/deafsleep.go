package general

import (
	"fmt"
	"go/ast"
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
	ctx := l.Context(p.Pkg)
	if ctx == nil || !l.HandsOver(ctx.Var) || l.Kind == loop.Other && (l.Bounded() || !l.Passes(ctx.Var) || !succeeds(l)) {
		return
	}
	for _, w := range l.Waits {
		if w.Deaf() && tellsHowLong(w) && isLong(l, w) && !inCase(l, w) {
			p.Report(w.Node, fmt.Sprintf("this sleep goes on after %[1]s has ended: wait in a select, "+
				"for %[1]s.Done(), too", ctx.Expr), hearing(p, l, w, ctx)...)
		}
	}
}

// tellsHowLong reports whether the length of a wait is not left to a helper: that of a helper is
// often too short to matter.
func tellsHowLong(w *loop.Wait) bool {
	_, call := w.Node.(*ast.CallExpr)
	return !call || w.Duration != nil
}

// succeeds reports whether the success of some call ends the loop.
func succeeds(l *loop.Loop) bool {
	return slices.ContainsFunc(l.Calls(), func(a *loop.Attempt) bool { return a.MayEnd(loop.Left, loop.Succeeded) })
}

// inCase reports whether a wait is what a case of a select does: it then paces what the select
// receives.
func inCase(l *loop.Loop, w *loop.Wait) bool {
	found := false
	loop.Inspect(l.Body, func(n ast.Node) bool {
		c, ok := n.(*ast.CommClause)
		if ok && c.Comm != nil && c.Colon < w.Node.Pos() && w.Node.End() <= c.End() {
			found = true
		}
		return !found
	})
	return found
}

// sleepOf returns the duration of a statement time.Sleep(d).
func sleepOf(w *loop.Wait) ast.Expr {
	call, ok := w.Node.(*ast.CallExpr)
	if !ok || w.Hidden || loop.Name(call) != "Sleep" {
		return nil
	}
	return w.Duration
}
