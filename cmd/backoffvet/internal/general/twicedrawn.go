package general

import (
	"fmt"
	"go/ast"
	"go/types"
	"iter"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

var twiceDrawn = rule.New("twicedrawn", "report delays that are drawn twice for one retry",
	func(p *rule.Pass) {
		for _, l := range loop.Of(p.Pass) {
			drawnTwiceIn(p, l)
		}
		drawnInOperations(p)
	}, loop.Analyzer, inspect.Analyzer)

// drawnTwiceIn reports draws that follow another one without an attempt between them.
func drawnTwiceIn(p *rule.Pass, l *loop.Loop) {
	if len(l.Attempts) == 0 {
		return
	}
	loop.Inspect(l.Body, func(n ast.Node) bool {
		if first, ok := n.(*ast.CallExpr); ok && isDraw(p.TypesInfo, first) {
			followDraw(p, l, first, func(second *ast.CallExpr) {
				reportDraw(p, second, fmt.Sprintf("in line %d", p.Fset.Position(first.Pos()).Line))
			})
		}
		return true
	})
}

// followDraw calls found for each draw of the same schedule that the next attempt does not separate
// from first.
func followDraw(p *rule.Pass, l *loop.Loop, first *ast.CallExpr, found func(*ast.CallExpr)) {
	type nothing struct{}
	loop.Walk(l, first, nothing{}, loop.Walker[nothing]{
		Step: func(s nothing, n ast.Node) (nothing, bool) {
			if attempts(l, n) || resets(n, first) {
				return s, false
			}
			if second := drawOf(p.TypesInfo, n, schedule(first)); second != nil {
				found(second)
				return s, false
			}
			return s, true
		},
		Branch: func(s nothing, _ ast.Expr, _ bool) (nothing, bool) { return s, true },
		End:    func(nothing, loop.Way, ast.Node) {},
	})
}

func attempts(l *loop.Loop, n ast.Node) bool {
	return slices.ContainsFunc(l.Attempts, func(a *loop.Attempt) bool {
		return n.Pos() <= a.Call.Pos() && a.Call.End() <= n.End()
	})
}

// drawOf returns a draw of a schedule in a node, or nil.
func drawOf(info *types.Info, n ast.Node, of string) (draw *ast.CallExpr) {
	loop.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && draw == nil && isDraw(info, call) && schedule(call) == of {
			draw = call
		}
		return draw == nil
	})
	return draw
}

// isDraw recognizes a method that returns the next delay of a schedule and moves it on.
func isDraw(info *types.Info, call *ast.CallExpr) bool {
	f, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || len(call.Args) > 0 || info.Selections[f] == nil {
		return false
	}
	t := info.TypeOf(call)
	draws := []string{"NextBackOff", "NextBackoff", "NextDelay", "NextInterval", "Next"}
	return slices.Contains(draws, f.Sel.Name) && t != nil && t.String() == "time.Duration"
}

// schedule returns what a draw is a draw of, as it is written.
func schedule(draw *ast.CallExpr) string {
	return types.ExprString(ast.Unparen(draw.Fun).(*ast.SelectorExpr).X)
}

// resets reports whether a node begins the schedule of a draw anew.
func resets(n ast.Node, draw *ast.CallExpr) bool {
	return loop.Has(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		return ok && types.ExprString(call.Fun) == schedule(draw)+".Reset"
	})
}

// drawnInOperations reports draws in the functions that cenkalti/backoff calls, of the schedule
// that it draws from itself.
func drawnInOperations(p *rule.Pass) {
	for call := range callsOf(p, "cenkalti/backoff", "Retry") {
		for _, f := range functionsOf(p, call) {
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if draw, ok := n.(*ast.CallExpr); ok && isDraw(p.TypesInfo, draw) && gives(p.TypesInfo, call, draw) {
					reportDraw(p, draw, "by "+types.ExprString(call.Fun))
				}
				return true
			})
		}
	}
}

// callsOf has the calls of functions of a library, by the begin of their names, each with the
// function around it.
func callsOf(p *rule.Pass, library, name string) iter.Seq2[*ast.CallExpr, ast.Node] {
	return func(yield func(*ast.CallExpr, ast.Node) bool) {
		for c := range p.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root().Preorder((*ast.CallExpr)(nil)) {
			call := c.Node().(*ast.CallExpr)
			f := typeutil.Callee(p.TypesInfo, call)
			if f == nil || f.Pkg() == nil || !strings.Contains(f.Pkg().Path(), library) || !strings.HasPrefix(f.Name(), name) {
				continue
			}
			for around := range c.Enclosing((*ast.FuncDecl)(nil)) {
				if !yield(call, around.Node()) {
					return
				}
			}
		}
	}
}

// functionsOf returns the function literals among the arguments of a call, also those of its
// options and those that have a name.
func functionsOf(p *rule.Pass, call *ast.CallExpr) []*ast.FuncLit {
	var all []*ast.FuncLit
	for _, arg := range call.Args {
		ast.Inspect(arg, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				all = append(all, n)
				return false
			case *ast.Ident:
				if f := literalOf(p, n); f != nil {
					all = append(all, f)
				}
			}
			return true
		})
	}
	return all
}

// literalOf returns the function literal with which a variable is declared, or nil.
func literalOf(p *rule.Pass, name *ast.Ident) *ast.FuncLit {
	v, ok := p.TypesInfo.Uses[name].(*types.Var)
	if !ok || v.Parent() == nil {
		return nil
	}
	if _, isFunc := v.Type().Underlying().(*types.Signature); !isFunc {
		return nil
	}
	for _, f := range p.Sources() {
		if f.FileStart <= v.Pos() && v.Pos() < f.FileEnd {
			return declared(p.TypesInfo, f, v)
		}
	}
	return nil
}

func declared(info *types.Info, f *ast.File, v *types.Var) (literal *ast.FuncLit) {
	ast.Inspect(f, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != len(assign.Rhs) {
			return true
		}
		for i, e := range assign.Lhs {
			if name, ok := e.(*ast.Ident); ok && info.Defs[name] == v {
				literal, _ = assign.Rhs[i].(*ast.FuncLit)
			}
		}
		return literal == nil
	})
	return literal
}

// gives reports whether the schedule of a draw is an argument of a call, or of an option in it.
func gives(info *types.Info, call, draw *ast.CallExpr) bool {
	name, ok := ast.Unparen(ast.Unparen(draw.Fun).(*ast.SelectorExpr).X).(*ast.Ident)
	if !ok {
		return false
	}
	return slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
		_, isFunc := arg.(*ast.FuncLit)
		return !isFunc && loop.Has(arg, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			return ok && info.ObjectOf(id) == info.ObjectOf(name)
		})
	})
}

func reportDraw(p *rule.Pass, draw *ast.CallExpr, first string) {
	p.Report(draw, fmt.Sprintf("the delay of this retry is drawn twice, here and %s: "+
		"each draw moves the schedule on, so keep what the first one returns", first))
}
