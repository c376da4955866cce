package library

import (
	"go/ast"
	"go/token"
	"go/types"
)

var outsideRun = newRule("outsiderun",
	"report a first attempt that is made outside of its policy, which does not know of it", findOutsideRuns)

// outside is what an attempt outside of its policy costs.
const outside = "it is none of the policy's attempts, and has neither its timeout nor its key, and no budget or breaker sees it"

func findOutsideRuns(c *code) {
	c.findTries()
	for _, a := range c.attempts {
		for around := range a.cursor.Enclosing((*ast.IfStmt)(nil)) {
			s := around.Node().(*ast.IfStmt)
			if call := c.failed(s); call != nil && within(s.Body, a.cursor.Node().Pos()) && c.callsToo(a.body, call) {
				c.Report(call, "this is a first attempt outside of the policy, which repeats it: "+outside+". "+
					"Let the policy make all attempts.")
			}
		}
	}
}

// failed returns the call whose error an if statement finds: that of its own statement, or of the
// one before it.
func (c *code) failed(s *ast.IfStmt) *ast.CallExpr {
	cond, ok := s.Cond.(*ast.BinaryExpr)
	if !ok || cond.Op != token.NEQ || !c.info.Types[cond.Y].IsNil() || !isError(c.info.TypeOf(cond.X)) {
		return nil
	}
	if call, ok := ast.Unparen(cond.X).(*ast.CallExpr); ok {
		return call
	}
	return c.resultOf(cond.X)
}

// callsToo reports whether an attempt makes the same call, of a function or method that may reach
// something.
func (c *code) callsToo(body *ast.BlockStmt, call *ast.CallExpr) bool {
	fn := c.callee(call)
	return fn != nil && takesContext(fn) && c.called(call) == "" && contains(body, func(n ast.Node) bool {
		again, ok := n.(*ast.CallExpr)
		return ok && c.callee(again) == fn && types.ExprString(again.Fun) == types.ExprString(call.Fun)
	})
}

// findTries reports r.Retry of a Run that has no Begin: the attempt was made outside.
func (c *code) findTries() {
	for at := range c.root.Preorder((*ast.CallExpr)(nil)) {
		call := at.Node().(*ast.CallExpr)
		if c.called(call) != "Run.Retry" {
			continue
		}
		run := c.object(receiver(call))
		if v, ok := run.(*types.Var); !ok || v.IsField() || c.resultOf(receiver(call)) == nil {
			continue
		}
		if !contains(declaration(at).Node(), func(n ast.Node) bool {
			begin, ok := n.(*ast.CallExpr)
			name := ""
			if ok {
				name = c.called(begin)
			}
			return (name == "Run.Begin" || name == "Run.Attempts") && c.object(receiver(begin)) == run
		}) {
			c.Report(call, "no attempt of "+run.Name()+" has begun, and so Retry ends the call with an error: make the attempt "+
				"under the context of "+run.Name()+".Begin, or call "+run.Name()+".Tried where another library makes it.")
		}
	}
}
