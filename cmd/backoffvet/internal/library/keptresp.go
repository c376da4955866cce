package library

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

var keptResp = newRule("keptresp",
	"report a response, or rows, that are read when the context of their attempt has ended", findKeptResp)

func findKeptResp(c *code) {
	bound := c.boundVariables()
	for _, a := range c.attempts {
		if !c.endsContext(a) || !c.mentions(a.body, a.ctx) {
			continue
		}
		if call, ok := a.cursor.Node().(*ast.CallExpr); ok && c.isBound(firstOf(c.info.TypeOf(call))) && !c.closes(a.body) {
			c.reportKept(call, firstOf(c.info.TypeOf(call)))
			continue
		}
		c.checkReturned(a)
		c.checkCaptured(a, bound)
	}
}

func (c *code) reportKept(at analysis.Range, t types.Type) {
	c.Report(at, "this "+strings.TrimPrefix(types.TypeString(t, (*types.Package).Name), "*")+" outlives its attempt, and "+
		"reading it fails: the context of the attempt has ended by then. Read it in the attempt.")
}

// endsContext reports whether the context of an attempt ends with it: by an attempt timeout, or
// because a hedge has won and there is no discard that would keep it.
func (c *code) endsContext(a attempt) bool {
	if call, ok := a.cursor.Node().(*ast.CallExpr); ok && a.by == "hedge.Value" {
		return c.info.Types[call.Args[3]].IsNil()
	}
	policies, _ := c.policies(a.doer)
	return slices.ContainsFunc(policies, func(s settings) bool {
		return s.has("AttemptTimeout", "AttemptTimeoutSchedule")
	})
}

// firstOf returns the first of several types.
func firstOf(t types.Type) types.Type {
	if tuple, ok := t.(*types.Tuple); ok && tuple.Len() > 0 {
		return tuple.At(0).Type()
	}
	return t
}

// isBound reports whether a value is read under the context of the call that made it.
func (c *code) isBound(t types.Type) bool {
	for _, bound := range [][2]string{
		{"net/http", "Response"}, {"io", "ReadCloser"},
		{"database/sql", "Rows"}, {"database/sql", "Row"}, {"database/sql", "Tx"},
		{"github.com/jackc/pgx/v5", "Rows"}, {"github.com/jackc/pgx/v5", "Row"},
	} {
		if isType(t, bound[0], bound[1]) {
			return true
		}
	}
	return false
}

// boundVariables returns the variables with such a value, in the order in which they are declared.
func (c *code) boundVariables() (bound []types.Object) {
	for obj := range c.values.whole {
		if c.isBound(obj.Type()) {
			bound = append(bound, obj)
		}
	}
	slices.SortFunc(bound, func(a, b types.Object) int { return int(a.Pos() - b.Pos()) })
	return bound
}

// closes reports whether an operation closes something whatever comes: it has read what it returns.
func (c *code) closes(body *ast.BlockStmt) bool {
	for _, stmt := range body.List {
		switch stmt.(type) {
		case *ast.DeferStmt, *ast.ExprStmt, *ast.AssignStmt:
			if contains(stmt, callsClose) {
				return true
			}
		}
	}
	return false
}

func callsClose(n ast.Node) bool {
	sel, ok := n.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Close"
}

// checkReturned is about a loop that returns a value of its attempt.
func (c *code) checkReturned(a attempt) {
	if a.loop == nil || c.closes(a.body) {
		return
	}
	for at := range a.cursor.Preorder((*ast.ReturnStmt)(nil)) {
		for _, result := range at.Node().(*ast.ReturnStmt).Results {
			if v := c.object(result); v != nil && c.isBound(v.Type()) && within(a.body, v.Pos()) {
				c.reportKept(result, v.Type())
			}
		}
	}
}

func within(n ast.Node, at token.Pos) bool { return n.Pos() <= at && at < n.End() }

// checkCaptured is about an attempt that sets a variable around it, which is read afterwards.
func (c *code) checkCaptured(a attempt, bound []types.Object) {
	if c.closes(a.body) {
		return
	}
	around := declaration(a.cursor)
	for _, obj := range bound {
		isSet := slices.ContainsFunc(c.values.whole[obj], func(v value) bool { return v.from != nil && within(a.body, v.at) })
		if !isSet || within(a.body, obj.Pos()) {
			continue
		}
		if read := c.readAfter(around, a, obj); read != nil {
			c.reportKept(read, obj.Type())
		}
	}
}

// readAfter returns the first place after an attempt where a variable is read: its Body, if it has
// one.
func (c *code) readAfter(in inspector.Cursor, a attempt, obj types.Object) ast.Node {
	for at := range in.Preorder((*ast.SelectorExpr)(nil)) {
		sel := at.Node().(*ast.SelectorExpr)
		if sel.Pos() < a.cursor.Node().End() || c.object(sel.X) != obj || !c.isRead(at, obj) {
			continue
		}
		return sel
	}
	return nil
}

// isRead reports whether a selector reads a value, which Close and the fields of a header do not.
func (c *code) isRead(at inspector.Cursor, obj types.Object) bool {
	name := at.Node().(*ast.SelectorExpr).Sel.Name
	if isType(obj.Type(), "net/http", "Response") {
		outer, ok := at.Parent().Node().(*ast.SelectorExpr)
		return name == "Body" && !(ok && outer.Sel.Name == "Close")
	}
	return name != "Close" && name != "Err" && name != "Rollback"
}
