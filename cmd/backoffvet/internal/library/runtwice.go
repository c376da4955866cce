package library

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
)

var runTwice = newRule("runtwice",
	"report a Run whose attempts are ranged over a second time, which makes none", findRunTwice)

func findRunTwice(c *code) {
	before := map[types.Object][]attempt{}
	for _, a := range c.attempts {
		run := c.runOf(a)
		if run == nil {
			continue
		}
		c.checkSecondUse(a, run, before[run])
		before[run] = append(before[run], a)
	}
}

// runOf returns the variable of the Run of a loop, or nil.
func (c *code) runOf(a attempt) types.Object {
	if a.loop == nil {
		return nil
	}
	return c.object(receiver(ast.Unparen(a.loop.X).(*ast.CallExpr)))
}

func (c *code) checkSecondUse(a attempt, run types.Object, before []attempt) {
	advice := ": a Run is one call, and then it is empty, so that the loop makes no attempt. Start a new one, or call " +
		run.Name() + ".Reset."
	switch {
	case run.Parent() == c.Pkg.Scope():
		c.Report(a.loop.X, run.Name()+" is made once for all calls"+advice)
	case c.isRepeated(a.cursor, run):
		c.Report(a.loop.X, run.Name()+" is made before the loop around this one"+advice)
	case slices.ContainsFunc(before, func(b attempt) bool { return c.isFollowed(b, a, run) }):
		c.Report(a.loop.X, "the attempts of "+run.Name()+" have been made before"+advice)
	}
}

// isRepeated reports whether a loop around one over the attempts of run repeats it with the same
// run.
func (c *code) isRepeated(at inspector.Cursor, run types.Object) bool {
	for around := range at.Parent().Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil)) {
		body := bodyOf(around.Node())
		if body == nil || around.Node().Pos() <= run.Pos() && run.Pos() < body.End() {
			return false
		}
		if !c.renews(body.Pos(), body.End(), run) && !leaves(body, at) {
			return true
		}
	}
	return false
}

// bodyOf returns the body of a loop, nil for anything else.
func bodyOf(n ast.Node) *ast.BlockStmt {
	switch n := n.(type) {
	case *ast.ForStmt:
		return n.Body
	case *ast.RangeStmt:
		return n.Body
	}
	return nil
}

// renews reports whether a run is reset or set between two places.
func (c *code) renews(from, to token.Pos, run types.Object) bool {
	for _, set := range c.values.whole[run] {
		if from <= set.at && set.at < to {
			return true
		}
	}
	for _, reset := range c.resets {
		if from <= reset.Pos() && reset.Pos() < to && c.object(receiver(reset)) == run {
			return true
		}
	}
	return false
}

// leaves reports whether each way through a body leaves it after the statement at.
func leaves(body *ast.BlockStmt, at inspector.Cursor) bool {
	for ; at.Node() != body; at = at.Parent() {
		if isLeft(at) {
			return true
		}
	}
	return false
}

// isLeft reports whether a statement after this one in its list leaves the function or the loop.
func isLeft(at inspector.Cursor) bool {
	for ok := true; ok && inList(at); at, ok = at.NextSibling() {
		switch n := at.Node().(type) {
		case *ast.ReturnStmt:
			return true
		case *ast.BranchStmt:
			return n.Tok != token.CONTINUE
		}
	}
	return false
}

// isFollowed reports whether a loop may come after another one over the same run.
func (c *code) isFollowed(first, second attempt, run types.Object) bool {
	if c.renews(first.loop.End(), second.loop.Pos(), run) {
		return false
	}
	up := first.cursor
	for ; !up.Parent().Contains(second.cursor); up = up.Parent() {
		if _, ok := up.Node().(*ast.FuncLit); ok || isLeft(up) {
			return false
		}
	}
	return !isChoice(up.Parent())
}

// isChoice reports whether only one of the parts of a statement is executed.
func isChoice(at inspector.Cursor) bool {
	switch at.Node().(type) {
	case *ast.IfStmt:
		return true
	case *ast.BlockStmt:
		kind := at.ParentEdgeKind()
		return kind == edge.SwitchStmt_Body || kind == edge.TypeSwitchStmt_Body || kind == edge.SelectStmt_Body
	}
	return false
}
