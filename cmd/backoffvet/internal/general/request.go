package general

import (
	"go/ast"
	"go/constant"
	"go/types"

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
