package general

import (
	"go/ast"
	"slices"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

var spentBody = ruleOfLoops("spentbody", "report requests whose body is not rewound for the next attempt", spentBodies)

// What a second Do of one request sends depends on the first. It sends the whole body where the
// first did not connect, or where the second finds that connection open, speaks HTTP/1 and has a
// GetBody; else it fails, or sends an empty body.
func spentBodies(p *rule.Pass, l *loop.Loop) {
	for _, a := range l.Calls() {
		r, req, ok := requestSent(p, l, a)
		if !ok || !remote.HTTP(p.TypesInfo, a.Call) || r.body == nil || isEmpty(p, r.body) || !repeated(l, a) {
			continue
		}
		if l.Contains(r.call) && !isSpentReader(p, l, r.body) || req != nil && !l.Contains(r.call) && setsBody(l) {
			continue
		}
		p.Report(a.Call, "the first attempt reads the body of this request to its end, and the next sends what is left: "+
			"make the request, and a new reader, in each attempt, or set req.Body from req.GetBody")
	}
}

// repeated reports whether another round may follow a call, and not only because nothing was sent.
func repeated(l *loop.Loop, a *loop.Attempt) bool {
	again := false
	loop.Walk(l, a.Node, false, loop.Walker[bool]{
		Step:   func(s bool, n ast.Node) (bool, bool) { return s, true },
		Branch: func(s bool, _ ast.Expr, _ bool) (bool, bool) { return s, true },
		End:    func(_ bool, way loop.Way, _ ast.Node) { again = again || way == loop.Again },
	})
	return again && !mentions(l.Body, "ECONNREFUSED")
}

func isEmpty(p *rule.Pass, body ast.Expr) bool {
	s, ok := ast.Unparen(body).(*ast.SelectorExpr)
	return p.TypesInfo.Types[body].IsNil() || ok && s.Sel.Name == "NoBody"
}

// isSpentReader reports whether a body is a reader that was made before the loop, and that the loop
// does not rewind.
func isSpentReader(p *rule.Pass, l *loop.Loop, body ast.Expr) bool {
	v := loop.VarOf(p.TypesInfo, body)
	if v == nil || v.Pos() > l.Stmt.Pos() || v.Pkg() == nil || v.Parent() == v.Pkg().Scope() {
		return false
	}
	return !slices.ContainsFunc(l.Assigned(v), func(e ast.Expr) bool { return l.Contains(e) || p.TypesInfo.Types[e].IsNil() }) &&
		!mentions(l.Body, "Seek") && !mentions(l.Body, "Reset") && !mentions(l.Body, "Rewind")
}

func setsBody(l *loop.Loop) bool {
	return mentions(l.Body, "Body") && assignsField(l, "Body") || mentions(l.Body, "GetBody")
}

func assignsField(l *loop.Loop, name string) bool {
	found := false
	ast.Inspect(l.Body, func(n ast.Node) bool {
		if assign, ok := n.(*ast.AssignStmt); ok {
			found = found || slices.ContainsFunc(assign.Lhs, func(e ast.Expr) bool {
				s, ok := e.(*ast.SelectorExpr)
				return ok && s.Sel.Name == name
			})
		}
		return !found
	})
	return found
}
