package loop

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
)

// Attempt is a call that may fail.
type Attempt struct {
	Node    ast.Node // the statement or condition that makes the call
	Call    *ast.CallExpr
	Err     *types.Var   // the variable that gets its error, or nil if the condition compares it
	Results []*types.Var // all variables that get its results
	Answers bool         // some of its answers are failures, as their status tells
	Truth   bool         // it returns no error but whether it succeeded, which Err then gets

	Ends map[End]ast.Expr // how rounds end after it, each with the last condition on one such path
}

// Inspect calls f for the nodes below root that run when root does: not those of function literals.
func Inspect(root ast.Node, f func(ast.Node) bool) {
	ast.Inspect(root, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok && n != root {
			return false
		}
		return n != nil && f(n)
	})
}

// Has reports whether a node below root that runs when root does is so.
func Has(root ast.Node, is func(ast.Node) bool) bool {
	found := false
	Inspect(root, func(n ast.Node) bool {
		found = found || is(n)
		return !found
	})
	return found
}

// HasAnywhere reports whether a node below root is so, also in function literals.
func HasAnywhere(root ast.Node, is func(ast.Node) bool) bool {
	found := false
	ast.Inspect(root, func(n ast.Node) bool {
		found = found || is(n)
		return !found
	})
	return found
}

func callsThatFail(info *types.Info, l *Loop) []*Attempt {
	var calls []*Attempt
	add := func(a *Attempt) {
		if a != nil && l.prog.sleepers[typeutil.Callee(info, a.Call)] == nil {
			calls = append(calls, a)
		}
	}
	for _, fails := range []func(*types.Info, *ast.CallExpr) bool{mayFail, saysIfDone} {
		Inspect(l.Stmt, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ForStmt, *ast.RangeStmt:
				// The calls of an inner loop are its attempts.
				return n == l.Stmt
			case *ast.AssignStmt:
				add(fromAssignment(info, n, n.Lhs, n.Rhs, fails))
			case *ast.ValueSpec:
				add(fromAssignment(info, n, asExprs(n.Names), n.Values, fails))
			case *ast.BinaryExpr:
				add(fromComparison(info, n))
			case *ast.CallExpr:
				if saysIfDone(info, n) && fails(info, n) {
					add(&Attempt{Node: n, Call: n, Truth: true})
				}
			}
			return true
		})
		if len(calls) > 0 {
			break
		}
	}
	return calls
}

func asExprs(names []*ast.Ident) []ast.Expr {
	exprs := make([]ast.Expr, len(names))
	for i, name := range names {
		exprs[i] = name
	}
	return exprs
}

func fromAssignment(info *types.Info, n ast.Node, left, right []ast.Expr, fails func(*types.Info, *ast.CallExpr) bool) *Attempt {
	if len(right) != 1 {
		return nil
	}
	call, ok := ast.Unparen(right[0]).(*ast.CallExpr)
	if !ok || !fails(info, call) {
		return nil
	}
	a := &Attempt{Node: n, Call: call, Truth: saysIfDone(info, call)}
	for _, e := range left {
		if v := VarOf(info, e); v != nil {
			a.Results = append(a.Results, v)
		}
	}
	if a.Err = VarOf(info, left[errorIn(info, call)]); a.Err == nil || !a.Truth && !IsError(a.Err.Type()) {
		return nil
	}
	return a
}

// saysIfDone reports whether a call tries something, and returns only whether that succeeded: its
// name says so, or it takes a context. One that is given an error judges that.
func saysIfDone(info *types.Info, call *ast.CallExpr) bool {
	if !types.Identical(typeOf(info, call), types.Typ[types.Bool]) || waitsByName(info, call) || loggers.MatchString(types.ExprString(call.Fun)) {
		return false
	}
	takes := func(is func(types.Type) bool) bool {
		return slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return is(typeOf(info, e)) })
	}
	return !takes(IsError) && (takes(remote.IsContext) || trying.MatchString(Name(call)))
}

var trying = regexp.MustCompile(`(?i)^(try|ping|(re)?connect|dial|login|send|fetch|is(up|online)$)|ready|healthy|available|reachable`)

// fromComparison recognizes f() != nil.
func fromComparison(info *types.Info, n *ast.BinaryExpr) *Attempt {
	call, ok := ast.Unparen(n.X).(*ast.CallExpr)
	if !ok || !isNil(info, n.Y) || !mayFail(info, call) {
		return nil
	}
	return &Attempt{Node: n, Call: call}
}

// mayFail reports whether a result of a call is an error, and not one that it makes itself.
func mayFail(info *types.Info, call *ast.CallExpr) bool {
	t := info.TypeOf(call)
	if tuple, ok := t.(*types.Tuple); ok {
		if tuple.Len() == 0 {
			return false
		}
		t = tuple.At(errorIn(info, call)).Type()
	}
	return t != nil && IsError(t) && !handlesErrors(info, call) && !waitsByName(info, call)
}

// errorIn returns which of the results of a call is the error: the last one, unless that is another
// one and the first is.
func errorIn(info *types.Info, call *ast.CallExpr) int {
	tuple, ok := info.TypeOf(call).(*types.Tuple)
	if !ok || IsError(tuple.At(0).Type()) && !IsError(tuple.At(tuple.Len()-1).Type()) {
		return 0
	}
	return tuple.Len() - 1
}

// handlesErrors reports whether a call makes or looks at errors or contexts, and tries nothing.
func handlesErrors(info *types.Info, call *ast.CallExpr) bool {
	if tv, ok := info.Types[call.Fun]; ok && tv.IsType() {
		return true
	}
	f := typeutil.Callee(info, call)
	if f == nil || f.Pkg() == nil {
		return false
	}
	if slices.Contains([]string{"errors", "fmt", "strconv", "github.com/pkg/errors", "context"}, f.Pkg().Path()) {
		return true
	}
	return f.Name() == "Err" || f.Name() == "Unwrap" || f.Name() == "Cause" || f.Name() == "Close"
}

// decl returns the function of the package that a call calls, or nil.
func (l *Loop) decl(call *ast.CallExpr) *ast.FuncDecl {
	return l.prog.decls[typeutil.Callee(l.info, call)]
}

// Name returns the name of what a call calls, or "".
func Name(call *ast.CallExpr) string {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.IndexExpr:
		return Name(&ast.CallExpr{Fun: f.X})
	}
	return ""
}

var errorType = types.Universe.Lookup("error").Type()

// IsError reports whether a type is error.
func IsError(t types.Type) bool { return types.Identical(t, errorType) }

// VarOf returns the variable that an expression is, or nil.
func VarOf(info *types.Info, e ast.Expr) *types.Var {
	name, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return nil
	}
	v, _ := info.ObjectOf(name).(*types.Var)
	return v
}

func isNil(info *types.Info, e ast.Expr) bool { return info.Types[e].IsNil() }

// mayReturn reports whether a call returns: panic, os.Exit and the like do not.
func mayReturn(info *types.Info, call *ast.CallExpr) bool {
	switch f := typeutil.Callee(info, call).(type) {
	case *types.Builtin:
		return f.Name() != "panic"
	case *types.Func:
		return !leaving.MatchString(f.Name())
	}
	return true
}

// leaving are the names of functions that end the program or the goroutine, in whatever package.
var leaving = regexp.MustCompile(`^(Exit|Fatal|Panic)(f|w|ln|Depth|Context)?$|^Goexit$|^FailNow$|^SkipNow$`)
