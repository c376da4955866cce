package general

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

// deafRetries reports retries of cenkalti/backoff, avast/retry-go or a function that is told how
// long to wait, which know nothing of the context under which their operation works.
func deafRetries(p *rule.Pass) {
	eachCall(p, "cenkalti/backoff", "Retry", func(call *ast.CallExpr, around ast.Node) {
		if len(call.Args) > 1 && mentions(around, "NewExponentialBackOff") && !remote.IsContext(p.TypesInfo.TypeOf(call.Args[0])) &&
			!mentions(around, "WithContext") && !mentions(around, "WithMaxRetries") && !mentions(around, "NewConstantBackOff") {
			goesOnAfter(p, call, "backoff.WithContext")
		}
	})
	eachCall(p, "avast/retry-go", "Do", func(call *ast.CallExpr, _ ast.Node) {
		if !call.Ellipsis.IsValid() && !mentions(call, "Context") && mentions(call, "Delay") {
			goesOnAfter(p, call, "retry.Context")
		}
	})
	eachCall(p, "", "Retry", func(call *ast.CallExpr, _ ast.Node) {
		if slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return isPause(p.TypesInfo, e) }) &&
			!slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return remote.IsContext(p.TypesInfo.TypeOf(e)) }) {
			goesOnAfter(p, call, "an argument")
		}
	})
}

// isPause reports whether an argument is a duration that may be more than a second.
func isPause(info *types.Info, e ast.Expr) bool {
	v := info.Types[e].Value
	return loop.IsDuration(info.TypeOf(e)) && (v == nil || constant.Compare(v, token.GTR, constant.MakeInt64(int64(shortest))))
}

// goesOnAfter reports a call of a library that repeats an operation which works under a context.
func goesOnAfter(p *rule.Pass, call *ast.CallExpr, by string) {
	for _, f := range functionsOf(p, call) {
		if ctx := worksUnder(p.TypesInfo, f); ctx != nil {
			p.Report(call, "these retries go on after "+ctx.Name()+" has ended, and wait in between: give them the context, by "+by)
		}
	}
}

// worksUnder returns the context that an operation hands to what it calls, or nil. It is a
// parameter of a function around the operation.
func worksUnder(info *types.Info, operation *ast.FuncLit) (ctx *types.Var) {
	ast.Inspect(operation.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		for _, arg := range call.Args {
			if v := loop.VarOf(info, arg); v != nil && remote.IsContext(v.Type()) && v.Kind() == types.ParamVar && v.Pos() < operation.Pos() {
				ctx = v
			}
		}
		return true
	})
	return ctx
}
