package general

import (
	"fmt"
	"go/ast"
	"slices"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

var ownContext = ruleOfLoops("ownctx", "report loops that retry the end of the caller's own context", retriesOwnContext)

func retriesOwnContext(p *rule.Pass, l *loop.Loop) {
	if l.Kind != loop.Retry || isHarmless(l) {
		return
	}
	ctx := l.Context(p.Pkg)
	if ctx == nil || !remote.IsContext(ctx.Var.Type()) || hears(p, l, ctx) {
		return
	}
	for _, a := range l.Attempts {
		if !endsElsewhere(p, l, a, ctx) && given(p, a.Call, ctx) && (retriesAnything(a) || retriesContextErrors(p, l)) {
			p.Report(a.Call, fmt.Sprintf("when %[1]s has ended this is tried again all the same, and fails each time: "+
				"leave the loop if %[1]s.Err() is not nil", ctx.Expr))
		}
	}
}

// isHarmless reports whether the loop makes few attempts, and does not sleep between them.
func isHarmless(l *loop.Loop) bool {
	n, constant := l.Limit()
	return constant && n < 5 && len(l.Waits) == 0
}

// endsElsewhere reports whether the loop gives the context to another call, too, whose failure may
// end it.
func endsElsewhere(p *rule.Pass, l *loop.Loop, a *loop.Attempt, ctx *loop.Context) bool {
	return slices.ContainsFunc(l.Calls(), func(other *loop.Attempt) bool { return other != a && given(p, other.Call, ctx) })
}

// given reports whether a call is given the context itself.
func given(p *rule.Pass, call *ast.CallExpr, ctx *loop.Context) bool {
	return len(call.Args) > 0 && loop.VarOf(p.TypesInfo, call.Args[0]) == ctx.Var
}

// hears reports whether the loop asks the context, gives it to a wait, or knows of the end of
// contexts otherwise.
func hears(p *rule.Pass, l *loop.Loop, ctx *loop.Context) bool {
	found := false
	ast.Inspect(l.Stmt, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		found = found || ok && (s.Sel.Name == "Err" || s.Sel.Name == "Done" || s.Sel.Name == "Cause") &&
			loop.VarOf(p.TypesInfo, s.X) == ctx.Var
		return !found
	})
	for _, w := range l.Waits {
		found = found || w.Hidden || w.Select != nil
	}
	return found
}

// retriesAnything reports whether any failure of an attempt begins another round, and nothing looks
// at its kind.
func retriesAnything(a *loop.Attempt) bool {
	return a.MayEnd(loop.Again, loop.Failed) && !a.MayEnd(loop.Left, loop.Failed, loop.Unknown)
}

// retriesContextErrors reports whether the loop, or a function of the package that it asks, has a
// word for the end of a context on the side of the errors that are retried.
func retriesContextErrors(p *rule.Pass, l *loop.Loop) bool {
	for _, a := range l.Attempts {
		for end, cond := range a.Ends {
			if end.Way == loop.Again && end.Outcome == loop.Failed && cond != nil && mentions(cond, "DeadlineExceeded") {
				return true
			}
		}
	}
	return false
}
