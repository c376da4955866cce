package general

import (
	"go/ast"
	"go/constant"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

// A request is a call of http.NewRequest, http.Post or the like.
type request struct {
	call         *ast.CallExpr
	method, body ast.Expr // the method is nil where the function says POST
}

// requestOf recognizes such a call.
func requestOf(p *rule.Pass, call *ast.CallExpr) (request, bool) {
	f, ok := typeutil.Callee(p.TypesInfo, call).(*types.Func)
	if !ok || f.Pkg() == nil || f.Pkg().Path() != "net/http" {
		return request{}, false
	}
	args := call.Args
	switch {
	case f.Name() == "NewRequest" && len(args) == 3:
		return request{call, args[0], args[2]}, true
	case f.Name() == "NewRequestWithContext" && len(args) == 4:
		return request{call, args[1], args[3]}, true
	case f.Name() == "Post" && len(args) == 3:
		return request{call, nil, args[2]}, true
	case f.Name() == "PostForm" && len(args) == 2:
		return request{call, nil, nil}, true
	}
	return request{}, false
}

// repeats reports whether the server does twice what such a request says twice.
func (r request) repeats(p *rule.Pass) bool {
	if r.method == nil {
		return true
	}
	v := p.TypesInfo.Types[r.method].Value
	if v == nil || v.Kind() != constant.String {
		return false
	}
	return constant.StringVal(v) == "POST" || constant.StringVal(v) == "PATCH"
}

// requestSent returns the request that an attempt sends: that of its own call, or the one that made
// the variable it is given, and this variable.
func requestSent(p *rule.Pass, l *loop.Loop, a *loop.Attempt) (request, *types.Var, bool) {
	if r, ok := requestOf(p, a.Call); ok {
		return r, nil, true
	}
	req := variableSent(p, a.Call)
	if req == nil {
		return request{}, nil, false
	}
	made := l.Assigned(req)
	if len(made) != 1 {
		return request{}, nil, false
	}
	call, ok := ast.Unparen(made[0]).(*ast.CallExpr)
	if !ok {
		return request{}, nil, false
	}
	r, ok := requestOf(p, call)
	return r, req, ok
}

func variableSent(p *rule.Pass, call *ast.CallExpr) *types.Var {
	for _, arg := range call.Args {
		if !remote.IsRequest(p.TypesInfo.TypeOf(arg)) {
			continue
		}
		if clone, ok := ast.Unparen(arg).(*ast.CallExpr); ok {
			if s, ok := clone.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Clone" || s.Sel.Name == "WithContext") {
				arg = s.X
			}
		}
		return loop.VarOf(p.TypesInfo, arg)
	}
	return nil
}

var spentBody = ruleOfLoops("spentbody", "report requests whose body is not rewound for the next attempt", spentBodies)

func spentBodies(p *rule.Pass, l *loop.Loop) {
	if l.Kind != loop.Retry {
		return
	}
	for _, a := range l.Attempts {
		r, req, ok := requestSent(p, l, a)
		if !ok || !remote.HTTP(p.TypesInfo, a.Call) || r.body == nil || isEmpty(p, r.body) {
			continue
		}
		if l.Contains(r.call) && !isSpentReader(p, l, r.body) || req != nil && !l.Contains(r.call) && setsBody(l) {
			continue
		}
		p.Report(a.Call, "the first attempt reads the body of this request to its end, and the next sends what is left: "+
			"make the request, and a new reader, in each attempt, or set req.Body from req.GetBody")
	}
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

var resentPost = ruleOfLoops("resentpost",
	"report requests that are not idempotent, and are sent again without a key", resentPosts)

func resentPosts(p *rule.Pass, l *loop.Loop) {
	if l.Kind != loop.Retry {
		return
	}
	for _, a := range l.Attempts {
		r, _, ok := requestSent(p, l, a)
		if ok && remote.HTTP(p.TypesInfo, a.Call) && r.repeats(p) && !hasKey(l) && !onlyUnsent(l) {
			p.Report(a.Call, "a request that is not idempotent is sent again, also where the server has carried it out and "+
				"only the answer was lost: give it an Idempotency-Key, or retry only what was never sent")
		}
	}
}

func hasKey(l *loop.Loop) bool {
	found := false
	ast.Inspect(l.Func.Outer, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		found = found || ok && keys(strings.ToLower(lit.Value))
		name, ok := n.(*ast.Ident)
		found = found || ok && strings.Contains(strings.ToLower(name.Name), "idempoten")
		return !found
	})
	return found
}

func keys(header string) bool {
	return strings.Contains(header, "idempoten") || strings.Contains(header, "request-id")
}

// onlyUnsent reports whether a loop asks for the failures that say that nothing was carried out.
func onlyUnsent(l *loop.Loop) bool {
	return slices.ContainsFunc([]string{"ECONNREFUSED", "StatusTooManyRequests", "StatusUnauthorized"},
		func(name string) bool { return mentions(l.Body, name) })
}
