package library

import "go/ast"

var failFastJob = newRule("failfastjob",
	"report work in the background that does not wait for its service, although nobody waits for it", findFailFastJobs)

func findFailFastJobs(c *code) {
	kinds := []ast.Node{(*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil), (*ast.FuncDecl)(nil)}
	for at := range c.root.Preorder((*ast.CallExpr)(nil)) {
		call := at.Node().(*ast.CallExpr)
		if c.called(call) != "guard.WithFailFast" {
			continue
		}
		for around := range at.Parent().Enclosing(kinds...) {
			job, function := c.isJob(around.Node())
			if job || c.isBackground(call.Args[0]) {
				c.Report(call, "this job does not wait for a service that is down, although nobody waits for the job: each round "+
					"fails, and what it should do is not done. FailFast is for calls that somebody waits for.")
				break
			}
			if function {
				break
			}
		}
	}
}

// isJob reports whether code runs for as long as its program: a loop without an end, one over what
// a channel brings, or what a Supervisor runs. A function says nothing of who calls it.
func (c *code) isJob(n ast.Node) (job, function bool) {
	switch n := n.(type) {
	case *ast.ForStmt:
		return n.Cond == nil && n.Init == nil, false
	case *ast.RangeStmt:
		return isChannel(c.info.TypeOf(n.X)), false
	case *ast.FuncLit:
		for _, a := range c.attempts {
			if a.body == n.Body && a.by == "Supervisor.Run" {
				return true, true
			}
		}
	}
	return false, true
}

// isBackground recognizes context.Background(), under which nobody waits.
func (c *code) isBackground(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	path, name := c.calledElsewhere(call)
	return path == "context" && (name == "Background" || name == "TODO")
}
