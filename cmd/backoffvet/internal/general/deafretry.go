package general

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

// deafRetries reports retries of cenkalti/backoff, avast/retry-go or a function that is told how
// long to wait, which know nothing of the context under which their operation works.
func deafRetries(p *rule.Pass) {
	decls := functions(p)
	eachCall(p, "cenkalti/backoff", "Retry", func(call *ast.CallExpr, around ast.Node) {
		if len(call.Args) > 1 && made(p, decls, call.Args[1], around) && !remote.IsContext(p.TypesInfo.TypeOf(call.Args[0])) &&
			!mentions(around, "WithContext") && !mentions(around, "WithMaxRetries") && !mentions(around, "NewConstantBackOff") {
			goesOnAfter(p, call, "backoff.WithContext")
		}
	})
	eachCall(p, "avast/retry-go", "Do", func(call *ast.CallExpr, _ ast.Node) {
		if !call.Ellipsis.IsValid() && !mentions(call, "Context") && mentions(call, "Delay") {
			goesOnAfter(p, call, "retry.Context")
		}
	})
	for name, by := range map[string]string{"ExponentialBackoff": "wait.ExponentialBackoffWithContext", "Poll": "wait.PollUntilContextTimeout"} {
		eachCall(p, "k8s.io/apimachinery/pkg/util/wait", name, func(call *ast.CallExpr, _ ast.Node) {
			if !remote.IsContext(p.TypesInfo.TypeOf(call.Args[0])) && !strings.Contains(loop.Name(call), "Until") { // which take a channel
				goesOnAfter(p, call, by)
			}
		})
	}
	eachCall(p, "", "Retry", func(call *ast.CallExpr, _ ast.Node) {
		if slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return isPause(p.TypesInfo, e) }) &&
			!slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return remote.IsContext(p.TypesInfo.TypeOf(e)) }) {
			goesOnAfter(p, call, "an argument")
		}
	})
}

// functions returns the functions of the package.
func functions(p *rule.Pass) map[types.Object]*ast.FuncDecl {
	decls := map[types.Object]*ast.FuncDecl{}
	for f := range p.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root().Preorder((*ast.FuncDecl)(nil)) {
		decls[p.TypesInfo.Defs[f.Node().(*ast.FuncDecl).Name]] = f.Node().(*ast.FuncDecl)
	}
	return decls
}

// made reports whether the function around a call makes its waits, which grow without end, or a
// function of the package that it calls.
func made(p *rule.Pass, decls map[types.Object]*ast.FuncDecl, waits ast.Expr, around ast.Node) bool {
	if call, ok := waits.(*ast.CallExpr); ok {
		if f := decls[typeutil.Callee(p.TypesInfo, call)]; f != nil {
			around = f
		}
	}
	return mentions(around, "NewExponentialBackOff") && !mentions(around, "WithContext")
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
