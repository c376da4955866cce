package general

import (
	"fmt"
	"go/ast"
	"time"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

var deafSleep = ruleOfLoops("deafsleep",
	"report retries that sleep although a context in scope may end", deafSleeps)

// shortest is the shortest sleep that is worth a finding.
const shortest = 500 * time.Millisecond

func deafSleeps(p *rule.Pass, l *loop.Loop) {
	if l.Items() {
		return
	}
	ctx := l.Context(p.Pkg)
	if ctx == nil || l.Kind == loop.Other && (l.Bounded() || !l.Passes(ctx.Var)) {
		return
	}
	for _, w := range l.Waits {
		if d, ok := l.Takes(w); w.Deaf() && (!ok || d >= shortest) {
			p.Report(w.Node, fmt.Sprintf("this sleep goes on when %[1]s has ended, for nobody: wait in a select, "+
				"for %[1]s.Done(), too", ctx.Expr), hearing(p, l, w, ctx)...)
		}
	}
}

// sleepOf returns the duration of a statement time.Sleep(d).
func sleepOf(w *loop.Wait) ast.Expr {
	call, ok := w.Node.(*ast.CallExpr)
	if !ok || w.Hidden || loop.Name(call) != "Sleep" {
		return nil
	}
	return w.Duration
}
