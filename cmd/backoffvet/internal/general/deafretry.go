package general

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"regexp"
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
			if !remote.IsContext(p.TypesInfo.TypeOf(call.Args[0])) && !strings.Contains(loop.Name(call), "Until") && // which take a channel
				!isOverSoon(p.TypesInfo, call) {
				goesOnAfter(p, call, by)
			}
		})
	}
	eachCall(p, "", "", func(call *ast.CallExpr, _ ast.Node) {
		if retries.MatchString(loop.Name(call)) &&
			slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return isPause(p.TypesInfo, e) || isBackoff(p, e) }) &&
			!slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return remote.IsContext(p.TypesInfo.TypeOf(e)) }) {
			goesOnAfter(p, call, "an argument")
		}
	})
}

// isOverSoon reports whether a poll has a timeout of a few seconds.
func isOverSoon(info *types.Info, poll *ast.CallExpr) bool {
	if len(poll.Args) < 2 { // it is given what another call returns
		return false
	}
	v := info.Types[poll.Args[1]].Value
	return v != nil && constant.Compare(v, token.LEQ, constant.MakeInt64(int64(soon)))
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

// retries matches the names of functions that repeat what they are given.
var retries = regexp.MustCompile(`^Retry|WithRetry|^(OnError|Backoff)$`)

// isBackoff reports whether an argument is a Backoff, as that of Kubernetes, whose first wait may
// be a second or more. How long those of other packages take is not known: the defaults of
// client-go take less than half of one.
func isBackoff(p *rule.Pass, e ast.Expr) bool {
	of := types.Unalias(p.TypesInfo.TypeOf(e))
	if pointer, ok := of.(*types.Pointer); ok {
		of = types.Unalias(pointer.Elem())
	}
	t, ok := of.(*types.Named)
	if !ok || t.Obj().Name() != "Backoff" {
		return false
	}
	return !loop.Has(e, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		v, isVar := p.TypesInfo.Uses[name].(*types.Var)
		if !ok || !isVar || v.IsField() || v.Pkg() == nil || v.Parent() != v.Pkg().Scope() {
			return beginsShort(p, n)
		}
		at := initial(p, v)
		return at == nil || loop.Has(at, func(n ast.Node) bool { return beginsShort(p, n) })
	})
}

// beginsShort recognizes the field Duration of a Backoff whose first wait is less than a second.
func beginsShort(p *rule.Pass, n ast.Node) bool {
	field, ok := n.(*ast.KeyValueExpr)
	if !ok || types.ExprString(field.Key) != "Duration" {
		return false
	}
	v := p.TypesInfo.Types[field.Value].Value
	return v != nil && constant.Compare(v, token.LSS, constant.MakeInt64(int64(shortest))) ||
		v == nil && strings.Contains(types.ExprString(field.Value), "Millisecond") // of another package
}

// initial returns what a variable of a package is at first, or nil if its file cannot be read, or
// is of another module.
func initial(p *rule.Pass, v *types.Var) (value ast.Expr) {
	home := func(path string) []string { return strings.SplitN(path+"///", "/", 4)[:3] }
	if !slices.Equal(home(v.Pkg().Path()), home(p.Pkg.Path())) {
		return nil
	}
	var files []*ast.File
	if files = p.Files; v.Pkg() != p.Pkg {
		file, err := parser.ParseFile(token.NewFileSet(), p.Fset.Position(v.Pos()).Filename, nil, 0)
		if err != nil {
			return nil
		}
		files = []*ast.File{file}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				i := slices.IndexFunc(spec.Names, func(name *ast.Ident) bool { return name.Name == v.Name() })
				if i >= 0 && i < len(spec.Values) {
					value = spec.Values[i]
				}
			}
			_, isFunc := n.(*ast.FuncDecl)
			return !isFunc
		})
	}
	return value
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
