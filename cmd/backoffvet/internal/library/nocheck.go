package library

import (
	"go/ast"
	"go/types"
)

var noCheck = newRule("nocheck",
	"report an attempt that takes every response for a success, and so never retries a 503", findNoChecks)

func findNoChecks(c *code) {
	for _, a := range c.attempts {
		if a.by == "hedge.Value" {
			continue
		}
		ast.Inspect(a.body, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok || len(assign.Lhs) != 2 || len(assign.Rhs) != 1 {
				return true
			}
			call, ok := assign.Rhs[0].(*ast.CallExpr)
			if resp := c.object(assign.Lhs[0]); ok && c.answers(call) && resp != nil && !c.looksAt(a.body, resp) {
				c.Report(call, "to the policy this response is a success whatever its status, a 503, too: return "+
					"backoffhttp.Check(resp), or look at its StatusCode.")
			}
			return true
		})
	}
}

// answers reports whether a call is one of net/http that returns a response with any status. The
// clients of package backoffhttp retry by themselves.
func (c *code) answers(call *ast.CallExpr) bool {
	path, name := c.calledElsewhere(call)
	switch name {
	case "Get", "Head", "Post", "PostForm":
		return path == "net/http"
	case "Client.Do", "Client.Get", "Client.Head", "Client.Post", "Client.PostForm":
		return path == "net/http" && !c.mayBeOurs(receiver(call))
	}
	return false
}

// looksAt reports whether an attempt asks a response for its status, or hands it on.
func (c *code) looksAt(body *ast.BlockStmt, resp types.Object) bool {
	asked := map[*ast.Ident]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && c.object(sel.X) == resp && sel.Sel.Name != "StatusCode" && sel.Sel.Name != "Status" {
			asked[ast.Unparen(sel.X).(*ast.Ident)] = true // its body, which says nothing of it
		}
		return true
	})
	return contains(body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		return ok && c.info.Uses[id] == resp && !asked[id]
	})
}
