package library

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

var wrapErr = newRule("wraperr",
	"report == and type switches on the error of a policy, which wraps that of the operation", findWrapErr)

// wrapping are the functions whose error is an *Error around that of the operation.
var wrapping = map[string]bool{
	"Policy.Do": true, "DoValue": true, "Doer.Do": true, "guard.Service.Do": true, "guard.Client.Do": true, "control.Handle.Do": true,
	"Supervisor.Run": true, "control.Handle.Supervise": true, "Run.Err": true, "hedge.Value": true,
	"backoffsql.Tx": true, "backoffsql.Transact": true, "contrib/backoffpgx.Tx": true,
}

func findWrapErr(c *code) {
	kinds := []ast.Node{
		(*ast.BinaryExpr)(nil), (*ast.SwitchStmt)(nil), (*ast.TypeAssertExpr)(nil), (*ast.TypeSwitchStmt)(nil),
	}
	for at := range c.root.Preorder(kinds...) {
		switch n := at.Node().(type) {
		case *ast.BinaryExpr:
			c.checkComparison(n)
		case *ast.SwitchStmt:
			c.checkSwitch(n)
		case *ast.TypeAssertExpr:
			if n.Type != nil && !c.isGivenType(n.Type) {
				c.checkTypes(n, n.X)
			}
		case *ast.TypeSwitchStmt:
			if c.asksOtherTypes(n) {
				c.checkTypes(n.Assign, switched(n))
			}
		}
	}
}

func (c *code) checkComparison(e *ast.BinaryExpr) {
	if e.Op != token.EQL && e.Op != token.NEQ {
		return
	}
	err, sentinel := e.X, e.Y
	if !c.isWrapped(err) {
		err, sentinel = e.Y, e.X
	}
	if c.isWrapped(err) && c.isSentinel(sentinel) {
		c.Report(e, c.comparisonMessage(err, e.Op), c.useIs(e, err, sentinel)...)
	}
}

func (c *code) comparisonMessage(err ast.Expr, op token.Token) string {
	what := "never equal"
	if op == token.NEQ {
		what = "always different"
	}
	return types.ExprString(err) + " wraps the error of the operation once the policy has given up, so the two are " +
		what + " then. Use errors.Is, or compare backoff.Cause(" + types.ExprString(err) + ")."
}

// isWrapped reports whether e is the error of a policy.
func (c *code) isWrapped(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		call = c.resultOf(e)
	}
	if call == nil || !isError(c.info.TypeOf(e)) {
		return false
	}
	name := c.called(call)
	return wrapping[name] && (name != "DoValue" || typeName(c.info.TypeOf(call.Args[1])) != "Breaker")
}

// isSentinel reports whether e is an error of a package, and one that a policy may wrap. It does
// not wrap answers that say there is nothing.
func (c *code) isSentinel(e ast.Expr) bool {
	obj := c.declared(e)
	if obj == nil || obj.Parent() != obj.Pkg().Scope() {
		return false
	}
	switch obj.Pkg().Name() + "." + obj.Name() {
	case "sql.ErrNoRows", "redis.Nil", "mongo.ErrNoDocuments":
		return false
	}
	return true
}

func (c *code) checkSwitch(s *ast.SwitchStmt) {
	if s.Tag == nil || !c.isWrapped(s.Tag) {
		return
	}
	for _, clause := range s.Body.List {
		for _, e := range clause.(*ast.CaseClause).List {
			if c.isSentinel(e) {
				c.Report(e, c.comparisonMessage(s.Tag, token.EQL))
			}
		}
	}
}

func (c *code) checkTypes(at analysis.Range, err ast.Expr) {
	if c.isWrapped(err) {
		name := types.ExprString(err)
		c.Report(at, name+" is an *Error around the error of the operation once the policy has given up, so its type is "+
			"not that of the operation's error. Use errors.As, or ask backoff.Cause("+name+").")
	}
}

// isGivenType reports whether a type is one that this library gives an error by itself.
func (c *code) isGivenType(e ast.Expr) bool {
	name := typeName(c.info.TypeOf(e))
	return name == "Error" || name == "OpenError"
}

func switched(s *ast.TypeSwitchStmt) ast.Expr {
	switch n := s.Assign.(type) {
	case *ast.AssignStmt:
		return n.Rhs[0].(*ast.TypeAssertExpr).X
	case *ast.ExprStmt:
		return n.X.(*ast.TypeAssertExpr).X
	}
	return nil
}

func (c *code) asksOtherTypes(s *ast.TypeSwitchStmt) bool {
	return slices.ContainsFunc(s.Body.List, func(clause ast.Stmt) bool {
		return slices.ContainsFunc(clause.(*ast.CaseClause).List, func(e ast.Expr) bool {
			return !c.info.Types[e].IsNil() && !c.isGivenType(e)
		})
	})
}

// useIs is the fix err == X -> errors.Is(err, X).
func (c *code) useIs(e *ast.BinaryExpr, err, sentinel ast.Expr) []analysis.SuggestedFix {
	imports, ok := c.Importing("errors", e.Pos())
	if !ok {
		return nil
	}
	call := "errors.Is(" + types.ExprString(err) + ", " + types.ExprString(sentinel) + ")"
	if e.Op == token.NEQ {
		call = "!" + call
	}
	return []analysis.SuggestedFix{{Message: "Use errors.Is", TextEdits: append(imports, replace(e, call))}}
}
