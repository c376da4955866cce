package general

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

var leakedBody = ruleOfLoops("leakedbody",
	"report responses whose body is not closed before the next attempt", leakedBodies)

func leakedBodies(p *rule.Pass, l *loop.Loop) {
	for _, a := range l.Calls() {
		resp := responseOf(a)
		if resp == nil || l.Items() || l.Kind == loop.Other || !opens(p, a.Call) || closedAbove(p, l, a, resp) || closedByFlag(p, l, resp) {
			continue
		}
		if leaks(p, l, a, resp) {
			p.Report(a.Call, "on a path to the next attempt the body of this response is not closed, which keeps its "+
				"connection: drain and close it before the wait")
		}
	}
}

// opens reports whether a call returns a response with an open body: one of net/http, or of what
// stands in its place. Those of a program's own may have read the body already.
func opens(p *rule.Pass, call *ast.CallExpr) bool {
	f, ok := typeutil.Callee(p.TypesInfo, call).(*types.Func)
	if !ok || f.Pkg() == nil || !remote.HTTP(p.TypesInfo, call) {
		return false
	}
	return f.Pkg().Path() == "net/http" || f.Name() == "RoundTrip" || f.Name() == "Do" && len(call.Args) == 1
}

func responseOf(a *loop.Attempt) *types.Var {
	if len(a.Results) != 2 || !remote.IsResponse(a.Results[0].Type()) {
		return nil
	}
	return a.Results[0]
}

// closedAbove reports whether a round begins with closing the response of the last.
func closedAbove(p *rule.Pass, l *loop.Loop, a *loop.Attempt, resp *types.Var) bool {
	found := false
	loop.Inspect(l.Body, func(n ast.Node) bool {
		found = found || n.End() < a.Node.Pos() && loop.VarOf(p.TypesInfo, asExpr(n)) == resp
		return !found
	})
	return found
}

// closedByFlag reports whether a variable says that the response is to be closed, which a walk does
// not see through.
func closedByFlag(p *rule.Pass, l *loop.Loop, resp *types.Var) bool {
	found := false
	loop.Inspect(l.Body, func(n ast.Node) bool {
		s, ok := n.(*ast.IfStmt)
		found = found || ok && hasFlag(p.TypesInfo, s.Cond) && releases(p.TypesInfo, s.Body, resp)
		return !found
	})
	return found
}

func hasFlag(info *types.Info, cond ast.Expr) bool {
	found := false
	ast.Inspect(cond, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		v, _ := info.Uses[name].(*types.Var)
		found = found || ok && v != nil && types.Identical(v.Type(), types.Typ[types.Bool])
		return !found
	})
	return found
}

func asExpr(n ast.Node) ast.Expr {
	e, ok := n.(*ast.Ident)
	if !ok {
		return &ast.BadExpr{}
	}
	return e
}

// A held says whether a response is there, and open, and whether another error is over its own.
type held struct{ there, released, over bool }

func leaks(p *rule.Pass, l *loop.Loop, a *loop.Attempt, resp *types.Var) bool {
	leaked := false
	loop.Walk(l, a.Node, held{}, loop.Walker[held]{
		Step: func(h held, n ast.Node) (held, bool) {
			h.released = h.released || releases(p.TypesInfo, n, resp)
			h.over = h.over || assigns(p.TypesInfo, n, a.Err)
			return h, !h.released
		},
		Branch: func(h held, cond ast.Expr, is bool) (held, bool) {
			if o := l.Says(a, cond, is); !h.over && o == loop.Failed {
				return h, false
			} else if !h.over && o == loop.Succeeded {
				h.there = true
			}
			// A response that a condition looks at is there: its status is bad.
			h.there = h.there || mentions(cond, "StatusCode")
			return h, !isNilOf(p.TypesInfo, cond, is, resp)
		},
		End: func(h held, way loop.Way, _ ast.Node) { leaked = leaked || way == loop.Again && h.there },
	})
	return leaked
}

func assigns(info *types.Info, n ast.Node, v *types.Var) bool {
	assign, ok := n.(*ast.AssignStmt)
	return ok && v != nil && slices.ContainsFunc(assign.Lhs, func(e ast.Expr) bool { return loop.VarOf(info, e) == v })
}

// isNilOf reports whether a condition says that there is no response.
func isNilOf(info *types.Info, cond ast.Expr, is bool, resp *types.Var) bool {
	b, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	return ok && info.Types[b.Y].IsNil() && loop.VarOf(info, b.X) == resp && is == (b.Op.String() == "==")
}

// releases reports whether a statement closes a response, or hands it to somebody who may. A defer
// closes it at the end of the function, which is too late.
func releases(info *types.Info, n ast.Node, resp *types.Var) bool {
	if _, ok := n.(*ast.DeferStmt); ok {
		return false
	}
	uses := 0
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			return loop.VarOf(info, n.X) != resp
		case *ast.SelectorExpr:
			if loop.VarOf(info, n.X) == resp {
				if n.Sel.Name == "Body" {
					uses++
				}
				return false
			}
		case *ast.CallExpr:
			// What is read to its end is still to be closed.
			return loop.Name(n) != "ReadAll" && loop.Name(n) != "Copy"
		case *ast.Ident:
			if loop.VarOf(info, n) == resp {
				uses++
			}
		}
		return true
	})
	return uses > 0
}
