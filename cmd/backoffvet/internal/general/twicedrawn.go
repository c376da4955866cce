package general

import (
	"fmt"
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

// twiceDrawn also looks at the functions that cenkalti/backoff calls, which draws by itself.
var twiceDrawn = rule.New("twicedrawn", "report delays that are drawn twice for one retry",
	func(p *rule.Pass) {
		for _, l := range loop.Of(p.Pass) {
			if len(l.Attempts) > 0 {
				drawsIn(p, l.Body, func(draw ast.Expr, schedule string) { followDraw(p, l, draw, schedule) })
			}
		}
		eachCall(p, "cenkalti/backoff", "Retry", func(call *ast.CallExpr, _ ast.Node) {
			for _, f := range functionsOf(p, call) {
				drawsIn(p, f.Body, func(draw ast.Expr, schedule string) {
					if written(call, schedule) != nil {
						reportDraw(p, draw, "by "+types.ExprString(call.Fun))
					}
				})
			}
		})
	}, loop.Analyzer, inspect.Analyzer)

// drawn matches a call that returns the next delay of a schedule and moves it on.
var drawn = regexp.MustCompile(`^(.+)\.Next(BackOff|Backoff|Delay|Interval|)\(\)$`)

// drawsIn calls found for each draw below a node, with its schedule as it is written.
func drawsIn(p *rule.Pass, n ast.Node, found func(draw ast.Expr, schedule string)) {
	loop.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && loop.IsDuration(p.TypesInfo.TypeOf(call)) {
			if m := drawn.FindStringSubmatch(types.ExprString(call)); m != nil {
				found(call, m[1])
			}
		}
		return true
	})
}

// followDraw reports the draws of the same schedule that no attempt separates from the first.
func followDraw(p *rule.Pass, l *loop.Loop, first ast.Expr, schedule string) {
	loop.Walk(l, first, true, loop.Walker[bool]{
		Step: func(s bool, n ast.Node) (bool, bool) {
			again := written(n, types.ExprString(first))
			if written(n, schedule+".Reset") != nil || slices.ContainsFunc(l.Attempts, func(a *loop.Attempt) bool {
				return n.Pos() <= a.Call.Pos() && a.Call.End() <= n.End()
			}) {
				return s, false
			}
			if again != nil {
				reportDraw(p, again, fmt.Sprintf("in line %d", p.Fset.Position(first.Pos()).Line))
			}
			return s, again == nil
		},
		Branch: func(s bool, _ ast.Expr, _ bool) (bool, bool) { return s, true },
		End:    func(bool, loop.Way, ast.Node) {},
	})
}

// written returns the first expression that runs when a node does and is written like this, or nil.
func written(n ast.Node, like string) (found ast.Expr) {
	loop.Inspect(n, func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok && found == nil && types.ExprString(e) == like {
			found = e
		}
		return found == nil
	})
	return found
}

func reportDraw(p *rule.Pass, draw analysis.Range, first string) {
	p.Report(draw, fmt.Sprintf("the delay of this retry is drawn twice, here and %s: "+
		"each draw moves the schedule on, so keep what the first one returns", first))
}

// eachCall calls look for the calls of functions of a library, by the begin of their names, with
// the function around each.
func eachCall(p *rule.Pass, library, name string, look func(call *ast.CallExpr, around ast.Node)) {
	for around := range p.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root().Preorder((*ast.FuncDecl)(nil)) {
		for c := range around.Preorder((*ast.CallExpr)(nil)) {
			f := typeutil.Callee(p.TypesInfo, c.Node().(*ast.CallExpr))
			if f != nil && f.Pkg() != nil && strings.Contains(f.Pkg().Path(), library) && strings.HasPrefix(f.Name(), name) {
				look(c.Node().(*ast.CallExpr), around.Node())
			}
		}
	}
}

// functionsOf returns the function literals among the arguments of a call, also those of its
// options and those that have a name.
func functionsOf(p *rule.Pass, call *ast.CallExpr) (all []*ast.FuncLit) {
	named := map[types.Object]*ast.FuncLit{}
	for c := range p.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root().Preorder((*ast.FuncLit)(nil)) {
		if assign, ok := c.Parent().Node().(*ast.AssignStmt); ok {
			if name, ok := assign.Lhs[c.ParentEdgeIndex()].(*ast.Ident); ok && p.TypesInfo.Defs[name] != nil {
				named[p.TypesInfo.Defs[name]] = c.Node().(*ast.FuncLit)
			}
		}
	}
	for _, arg := range call.Args {
		ast.Inspect(arg, func(n ast.Node) bool {
			f, isFunc := n.(*ast.FuncLit)
			if name, ok := n.(*ast.Ident); ok {
				f = named[p.TypesInfo.Uses[name]]
			}
			if f != nil {
				all = append(all, f)
			}
			return !isFunc
		})
	}
	return all
}
