package library

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

var outerCtx = newRule("outerctx",
	"report an attempt that ignores its own context and uses that of the call", findOuterCtx)

func findOuterCtx(c *code) {
	for _, a := range c.attempts {
		if a.by == "Breaker.Do" || a.by == "Breaker.Wrap" || c.mentions(a.body, a.ctx) {
			continue // a Breaker passes the context of the call on as it is
		}
		if uses := c.outerUses(a); len(uses) > 0 {
			c.Report(uses[0], outerMessage(a, types.ExprString(uses[0])), c.takeOwn(a, uses)...)
		}
	}
}

func outerMessage(a attempt, outer string) string {
	what := "the function that " + a.by + " gets ignores its own context and uses " + outer
	if a.loop != nil {
		what = "this loop ignores the contexts of its attempts and uses " + outer
	}
	return what + ": an attempt timeout does not end the attempt, and an idempotency key does not reach it. " +
		"Take the context of the attempt."
}

// outerUses returns the arguments in an attempt that are the context of the call. Those of defer
// and of go do not count: they may outlive the attempt.
func (c *code) outerUses(a attempt) (uses []ast.Expr) {
	body, ok := a.cursor.FindNode(a.body)
	if !ok {
		body, ok = c.root.FindNode(a.body)
	}
	if !ok {
		return nil
	}
	kinds := []ast.Node{(*ast.CallExpr)(nil), (*ast.DeferStmt)(nil), (*ast.GoStmt)(nil)}
	body.Inspect(kinds, func(at inspector.Cursor) bool {
		call, ok := at.Node().(*ast.CallExpr)
		if ok && c.carries(call) {
			uses = append(uses, c.outerArgs(a, call)...)
		}
		return ok
	})
	return uses
}

// carries reports whether a call does work under the contexts it gets, or makes something that
// does. Calls that only log, or read a value, do not matter.
func (c *code) carries(call *ast.CallExpr) bool {
	switch c.called(call) {
	case "IdempotencyKey", "hedge.Number", "backoffhttp.RetryNumber":
		return true
	}
	if path, name := c.calledElsewhere(call); path == "context" && name == "WithoutCancel" {
		return false
	}
	results, ok := c.info.TypeOf(call).(*types.Tuple)
	if !ok {
		return works(c.info.TypeOf(call))
	}
	return slices.ContainsFunc(slices.Collect(results.Variables()), func(v *types.Var) bool { return works(v.Type()) })
}

// works reports whether a value may be the work of a call, or carry its context on.
func works(t types.Type) bool {
	return t != nil && (isError(t) || isContext(t) || isType(t, "net/http", "Request") || isType(t, "os/exec", "Cmd"))
}

func (c *code) outerArgs(a attempt, call *ast.CallExpr) (outer []ast.Expr) {
	for _, arg := range call.Args {
		if isContext(c.info.TypeOf(arg)) && c.isOuter(a, arg) {
			outer = append(outer, arg)
		}
	}
	return outer
}

// isOuter reports whether e is the context of the call: what the policy got. Any other context is
// there for a reason.
func (c *code) isOuter(a attempt, e ast.Expr) bool {
	root := c.object(rootOf(e))
	if root == nil || a.body.Pos() <= root.Pos() && root.Pos() < a.body.End() {
		return false
	}
	if a.given == nil {
		return a.loop != nil && c.object(e) != nil
	}
	return types.ExprString(e) == types.ExprString(a.given) && root == c.object(rootOf(a.given))
}

// rootOf returns x for x.y and x.y().
func rootOf(e ast.Expr) ast.Expr {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.SelectorExpr:
			e = x.X
		case *ast.CallExpr:
			e = x.Fun
		default:
			return x
		}
	}
}

// takeOwn gives the context of the attempt the name that the body uses, if that means the same
// everywhere in the body.
func (c *code) takeOwn(a attempt, uses []ast.Expr) []analysis.SuggestedFix {
	outer, ok := ast.Unparen(uses[0]).(*ast.Ident)
	if !ok || a.ctx != nil || c.count(a.body, c.info.ObjectOf(outer)) != len(uses) {
		return nil
	}
	edit, ok := nameContext(a, outer.Name)
	if !ok {
		return nil
	}
	return []analysis.SuggestedFix{{Message: "Take the context of the attempt", TextEdits: []analysis.TextEdit{edit}}}
}

// nameContext names the context of an attempt that has none.
func nameContext(a attempt, name string) (analysis.TextEdit, bool) {
	switch {
	case a.loop != nil:
		return nameKey(a.loop, name)
	case len(a.params.List) == 0:
		return analysis.TextEdit{}, false
	}
	first := a.params.List[0]
	if len(first.Names) > 0 {
		return replace(first.Names[0], name), true
	}
	return insert(first.Pos(), name+" "), len(a.params.List) == 1
}

func nameKey(loop *ast.RangeStmt, name string) (analysis.TextEdit, bool) {
	if loop.Key == nil {
		return insert(loop.Range, name+" := "), true
	}
	return analysis.TextEdit{Pos: loop.Key.Pos(), End: loop.Range, NewText: []byte(name + " := ")}, true
}

func (m *model) count(n ast.Node, obj types.Object) (count int) {
	contains(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && m.info.ObjectOf(id) == obj {
			count++
		}
		return false
	})
	return count
}

func replace(n ast.Node, by string) analysis.TextEdit {
	return analysis.TextEdit{Pos: n.Pos(), End: n.End(), NewText: []byte(by)}
}

func insert(at token.Pos, text string) analysis.TextEdit {
	return analysis.TextEdit{Pos: at, End: at, NewText: []byte(text)}
}
