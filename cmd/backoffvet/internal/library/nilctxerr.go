package library

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
)

var nilCtxErr = newRule("nilctxerr",
	"report ctx.Err() as the result of a call that ended, because it may be nil", findNilCtxErr)

func findNilCtxErr(c *code) {
	for at := range c.root.Preorder((*ast.ReturnStmt)(nil)) {
		for _, result := range at.Node().(*ast.ReturnStmt).Results {
			if ctxErr := c.contextError(result); ctxErr != nil {
				c.reportNilCtxErr(at, ctxErr)
			}
		}
	}
}

// contextError returns the call ctx.Err() that a result is, or is made of.
func (c *code) contextError(result ast.Expr) *ast.CallExpr {
	call, ok := ast.Unparen(result).(*ast.CallExpr)
	if !ok {
		return nil
	}
	if c.asksContext(call) {
		return call
	}
	path, name := c.calledElsewhere(call)
	switch {
	case path == "fmt" && name == "Errorf", path == "google.golang.org/grpc/status" && name == "FromContextError":
		return c.contextError(call.Args[len(call.Args)-1])
	case name == "Status.Err":
		return c.contextError(receiver(call))
	}
	return nil
}

// asksContext reports whether n is ctx.Err() or context.Cause(ctx).
func (c *code) asksContext(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	path, name := c.calledElsewhere(call)
	return path == "context" && (name == "Context.Err" || name == "Cause")
}

func (c *code) reportNilCtxErr(at inspector.Cursor, ctxErr *ast.CallExpr) {
	why := c.endedBefore(at)
	if why == "" {
		return
	}
	fix := analysis.SuggestedFix{Message: "Return " + why, TextEdits: []analysis.TextEdit{replace(ctxErr, why)}}
	c.Report(ctxErr, types.ExprString(ctxErr)+" may be nil here, and then a failure is returned as a success: "+
		"a policy also gives up before its context ends. Return "+why+", which says why the call ended.", fix)
}

// endedBefore returns the error of the call that has ended without success where a statement is, as
// an expression, and "" if there is no such call or the code looks at its error.
func (c *code) endedBefore(at inspector.Cursor) (why string) {
	for before, ok := at.PrevSibling(); ok && inList(before); before, ok = before.PrevSibling() {
		if why := c.errorOfLoop(before.Node()); why != "" {
			return why
		}
		if contains(before.Node(), c.asksForError) {
			return ""
		}
	}
	return c.errorOfBranch(at.Parent())
}

func inList(c inspector.Cursor) bool {
	kind := c.ParentEdgeKind()
	return kind == edge.BlockStmt_List || kind == edge.CaseClause_Body
}

// asksForError reports whether n is ctx.Err() or r.Err().
func (c *code) asksForError(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	return ok && (c.asksContext(call) || c.called(call) == "Run.Err")
}

// errorOfLoop returns r.Err() for a loop that runs until r gives up.
func (c *code) errorOfLoop(n ast.Node) string {
	switch n := n.(type) {
	case *ast.LabeledStmt:
		return c.errorOfLoop(n.Stmt)
	case *ast.RangeStmt:
		if c.called(n.X) == "Run.Attempts" {
			return errorOfRun(n.X)
		}
	case *ast.ForStmt:
		return c.errorIfFalse(n.Cond)
	}
	return ""
}

// errorOfRun returns r.Err() for a call of a method of r. If r is not a name, it cannot be asked
// again, and is none.
func errorOfRun(call ast.Expr) string {
	run := receiver(ast.Unparen(call).(*ast.CallExpr))
	if _, ok := ast.Unparen(run).(*ast.CallExpr); ok {
		return ""
	}
	return types.ExprString(run) + ".Err()"
}

// errorOfBranch is for a block that runs if a call has failed: if !ok after r.Begin or r.Retry, if
// err != nil after a Do, and a case of the same conditions.
func (c *code) errorOfBranch(block inspector.Cursor) string {
	if clause, ok := block.Node().(*ast.CaseClause); ok {
		return c.errorOfAny(clause.List)
	}
	parent, ok := block.Parent().Node().(*ast.IfStmt)
	if !ok {
		return ""
	}
	if block.ParentEdgeKind() == edge.IfStmt_Else {
		return c.errorIfFalse(parent.Cond)
	}
	return c.errorIfTrue(parent.Cond)
}

func (c *code) errorOfAny(conditions []ast.Expr) string {
	for _, cond := range conditions {
		if why := c.errorIfTrue(cond); why != "" {
			return why
		}
	}
	return ""
}

func (c *code) errorIfTrue(cond ast.Expr) string {
	switch e := ast.Unparen(cond).(type) {
	case *ast.UnaryExpr:
		return c.errorIfFalse(e.X)
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LOR:
			return c.errorOfAny([]ast.Expr{e.X, e.Y})
		case token.NEQ:
			return c.errorOfDo(e)
		}
	}
	return ""
}

// errorIfFalse is for the ok of r.Begin and r.Retry.
func (c *code) errorIfFalse(cond ast.Expr) string {
	if cond == nil {
		return ""
	}
	if call := c.resultOf(cond); call != nil {
		if name := c.called(call); name == "Run.Begin" || name == "Run.Retry" {
			return errorOfRun(call)
		}
	}
	return ""
}

// errorOfDo is for err != nil, where err is that of a policy.
func (c *code) errorOfDo(e *ast.BinaryExpr) string {
	call := c.resultOf(e.X)
	if call == nil || !c.info.Types[e.Y].IsNil() {
		return ""
	}
	if _, ok := runners[c.called(call)]; ok {
		return types.ExprString(e.X)
	}
	return ""
}
