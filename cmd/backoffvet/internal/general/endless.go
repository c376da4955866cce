package general

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

var endless = ruleOfLoops("endless",
	"report loops that call something remote until it succeeds, with no other way out", endlesses)

func endlesses(p *rule.Pass, l *loop.Loop) {
	if l.Kind != loop.Retry || len(l.Attempts) != 1 || len(l.Calls()) != 1 {
		return
	}
	a := l.Attempts[0]
	if !remote.Call(p.TypesInfo, a.Call) || leavesBefore(l, a) {
		return
	}
	failing := []loop.Outcome{loop.Failed, loop.Unknown}
	if a.MayEnd(loop.Left, failing...) || a.MayEnd(loop.Exhausted, failing...) {
		return
	}
	p.Report(a.Call, fmt.Sprintf("this loop ends only when %s succeeds: bound its attempts or its time, or let a "+
		"context end it", loop.Name(a.Call)))
}

// leavesBefore reports whether something in the loop leaves it before the attempt.
func leavesBefore(l *loop.Loop, a *loop.Attempt) bool {
	found := false
	loop.Inspect(l.Stmt, func(n ast.Node) bool {
		if n.Pos() > a.Call.Pos() {
			return false
		}
		switch n := n.(type) {
		case *ast.ReturnStmt:
			found = found || n.End() < a.Call.Pos()
		case *ast.BranchStmt:
			found = found || n.Tok != token.CONTINUE
		case *ast.CallExpr:
			found = found || slices.Contains([]string{"panic", "Exit", "Fatal", "Fatalf"}, loop.Name(n))
		}
		return !found
	})
	return found
}
