// Package remote tells which calls leave the process, by their types.
package remote

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// Call reports whether a call may reach another process: it takes a context and returns an error,
// or is one of net/http, database/sql, gRPC, net and the like.
func Call(info *types.Info, call *ast.CallExpr) bool {
	sig, ok := types.Unalias(typeOf(info, call.Fun)).Underlying().(*types.Signature)
	if !ok || !fails(sig) {
		return false
	}
	return takes(sig, isRemoteParameter) || HTTP(info, call) || dials(typeutil.Callee(info, call))
}

func typeOf(info *types.Info, e ast.Expr) types.Type {
	if t := info.TypeOf(e); t != nil {
		return t
	}
	return types.Typ[types.Invalid]
}

func fails(sig *types.Signature) bool {
	n := sig.Results().Len()
	return n > 0 && sig.Results().At(n-1).Type().String() == "error"
}

func takes(sig *types.Signature, wanted func(types.Type) bool) bool {
	for v := range sig.Params().Variables() {
		if wanted(v.Type()) {
			return true
		}
	}
	return false
}

func isRemoteParameter(t types.Type) bool {
	name := t.String()
	return IsContext(t) || name == "[]google.golang.org/grpc.CallOption" || IsRequest(t)
}

// IsContext reports whether a type is context.Context.
func IsContext(t types.Type) bool { return t != nil && t.String() == "context.Context" }

// IsRequest reports whether a type is *http.Request.
func IsRequest(t types.Type) bool { return t != nil && t.String() == "*net/http.Request" }

// IsResponse reports whether a type is *http.Response.
func IsResponse(t types.Type) bool { return t != nil && t.String() == "*net/http.Response" }

// HTTP reports whether a call returns an *http.Response and an error.
func HTTP(info *types.Info, call *ast.CallExpr) bool {
	t, ok := info.TypeOf(call).(*types.Tuple)
	return ok && t.Len() == 2 && IsResponse(t.At(0).Type())
}

// dials reports whether a function of the standard library connects, or uses a connection.
func dials(callee types.Object) bool {
	f, ok := callee.(*types.Func)
	if !ok || f.Pkg() == nil {
		return false
	}
	switch f.Pkg().Path() {
	case "database/sql":
		return f.Signature().Recv() != nil && !strings.HasPrefix(f.Name(), "Scan") && f.Name() != "Close"
	case "net", "crypto/tls", "net/rpc", "net/smtp", "golang.org/x/crypto/ssh":
		return strings.HasPrefix(f.Name(), "Dial") || strings.HasPrefix(f.Name(), "Lookup") ||
			f.FullName() == "(*net/rpc.Client).Call"
	}
	return false
}
