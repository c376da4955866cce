package library

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

var negAttempts = newRule("negattempts",
	"report a limit that is computed and, where the result is 0 or negative, means something else", findNegAttempts)

func findNegAttempts(c *code) {
	for at := range c.root.Preorder((*ast.KeyValueExpr)(nil), (*ast.AssignStmt)(nil)) {
		switch n := at.Node().(type) {
		case *ast.KeyValueExpr:
			c.checkMember(at, n)
		case *ast.AssignStmt:
			c.checkAssignment(at, n)
		}
	}
}

func (c *code) checkMember(at inspector.Cursor, kv *ast.KeyValueExpr) {
	if lit, ok := at.Parent().Node().(*ast.CompositeLit); ok {
		if field, ok := kv.Key.(*ast.Ident); ok {
			c.checkLimit(at, typeName(c.info.TypeOf(lit)), field.Name, kv.Value)
		}
	}
}

func (c *code) checkAssignment(at inspector.Cursor, s *ast.AssignStmt) {
	if len(s.Lhs) != len(s.Rhs) {
		return
	}
	for i, to := range s.Lhs {
		if field, ok := ast.Unparen(to).(*ast.SelectorExpr); ok {
			c.checkLimit(at, typeName(c.info.TypeOf(field.X)), field.Sel.Name, s.Rhs[i])
		}
	}
}

func (c *code) checkLimit(at inspector.Cursor, of, field string, value ast.Expr) {
	if of != "Policy" && of != "Supervisor" && of != "ClassLimits" || c.info.Types[value].Value != nil {
		return
	}
	switch field {
	case "MaxAttempts", "MaxRuns":
		c.checkAttempts(at, field, value)
	case "MaxElapsed", "AttemptTimeout":
		c.checkRest(at, field, value)
	}
}

// checkAttempts is about n + 1, which is 0 where n is -1.
func (c *code) checkAttempts(at inspector.Cursor, field string, value ast.Expr) {
	n := c.moreByOne(value)
	if n == nil || c.isCount(n) || slices.ContainsFunc(c.variables(n), c.isComparedSomewhere) {
		return
	}
	otherwise := "the default of 4"
	if field == "MaxRuns" {
		otherwise = "no limit"
	}
	c.Report(value, types.ExprString(value)+" is 0 where "+types.ExprString(n)+" is -1, as programs write \"no limit\", "+
		"and 0 means "+otherwise+" here. Say what a negative number means: \"no limit\" is "+field+": -1.")
}

// moreByOne returns n for n + 1 and 1 + n, without conversions.
func (c *code) moreByOne(e ast.Expr) ast.Expr {
	sum, ok := c.converted(e).(*ast.BinaryExpr)
	if !ok || sum.Op != token.ADD {
		return nil
	}
	for i, one := range []ast.Expr{sum.X, sum.Y} {
		if v := c.info.Types[one].Value; v != nil && v.String() == "1" {
			return c.converted([]ast.Expr{sum.Y, sum.X}[i])
		}
	}
	return nil
}

// converted returns x for T(x).
func (c *code) converted(e ast.Expr) ast.Expr {
	e = ast.Unparen(e)
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 1 && c.info.Types[call.Fun].IsType() {
		return c.converted(call.Args[0])
	}
	return e
}

// isCount reports whether an expression is never negative: it is unsigned, the result of a
// function such as len or max, or a variable with no value but a constant or one of these.
func (c *code) isCount(e ast.Expr) bool {
	if value := c.info.Types[e].Value; value != nil {
		return value.String()[0] != '-'
	}
	if basic, ok := c.info.TypeOf(e).Underlying().(*types.Basic); ok && basic.Info()&types.IsUnsigned != 0 {
		return true
	}
	if _, ok := e.(*ast.CallExpr); ok {
		return true
	}
	values := c.values.whole[c.object(e)]
	return len(values) > 0 && !slices.ContainsFunc(values, func(v value) bool {
		return v.expr == nil || c.info.Types[v.expr].Value == nil || !c.isCount(v.expr)
	})
}

// isCompared reports whether the code within a node compares a variable that e names, or asks
// whether one is before another.
func (c *code) isCompared(in inspector.Cursor, e ast.Expr) bool {
	for at := range in.Preorder((*ast.BinaryExpr)(nil), (*ast.CallExpr)(nil)) {
		if c.compares(at.Node()) && c.shareVariable(at.Node(), e) {
			return true
		}
	}
	return false
}

// comparedVariables returns the variables and fields that the package compares.
func (m *model) comparedVariables() map[types.Object]bool {
	all := map[types.Object]bool{}
	for at := range m.root.Preorder((*ast.BinaryExpr)(nil), (*ast.CallExpr)(nil)) {
		if m.compares(at.Node()) {
			for _, v := range m.variables(at.Node()) {
				all[v] = true
			}
		}
	}
	return all
}

func (c *code) isComparedSomewhere(v types.Object) bool { return c.compared[v] }

func (m *model) compares(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		switch n.Op {
		case token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ:
			return true
		}
	case *ast.CallExpr:
		_, name := m.calledElsewhere(n)
		return name == "Time.Before" || name == "Time.After" || name == "Time.Compare"
	}
	return false
}

// shareVariable reports whether two pieces of code name the same variable or field.
func (c *code) shareVariable(a, b ast.Node) bool {
	return slices.ContainsFunc(c.variables(b), func(v types.Object) bool { return c.mentions(a, v) })
}

// variables returns the variables and fields that n names, of x.y the field y only.
func (m *model) variables(n ast.Node) (all []types.Object) {
	ast.Inspect(n, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			all = append(all, m.variables(sel.Sel)...)
			return false
		}
		if id, ok := n.(*ast.Ident); ok {
			if v, ok := m.info.ObjectOf(id).(*types.Var); ok {
				all = append(all, v)
			}
		}
		return true
	})
	return all
}

// checkRest is about what is left of a time, which may be nothing.
func (c *code) checkRest(at inspector.Cursor, field string, value ast.Expr) {
	rest := c.converted(c.valueOf(value))
	if !c.isRest(rest) {
		return
	}
	around := declaration(at)
	if c.isCompared(around, value) || c.isCompared(around, rest) || c.polls(around) {
		return
	}
	c.Report(value, types.ExprString(value)+" may be 0 or negative, which means no limit here. Make the end of that time "+
		"the deadline of the context, or write max(..., 1).", c.atLeastOne(value)...)
}

func (c *code) atLeastOne(value ast.Expr) []analysis.SuggestedFix {
	if !c.means(value.Pos(), "max", types.Universe.Lookup("max")) {
		return nil
	}
	edits := []analysis.TextEdit{insert(value.Pos(), "max("), insert(value.End(), ", 1)")}
	return []analysis.SuggestedFix{{Message: "Let it be 1 ns at least", TextEdits: edits}}
}

// isRest reports whether e is a - b, time.Until(t) or t.Sub(u).
func (c *code) isRest(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return e.Op == token.SUB && c.info.Types[e].Value == nil
	case *ast.CallExpr:
		path, name := c.calledElsewhere(e)
		return path == "time" && (name == "Until" || name == "Time.Sub")
	}
	return false
}

// polls reports whether a function polls: there a negative MaxElapsed is no time.
func (c *code) polls(in inspector.Cursor) bool {
	return contains(in.Node(), func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		name := ""
		if ok {
			name = c.called(call)
		}
		return name == "poll.Until" || name == "poll.Value"
	})
}

// declaration returns the declaration of the function around a node, or the file.
func declaration(at inspector.Cursor) inspector.Cursor {
	for f := range at.Enclosing((*ast.FuncDecl)(nil), (*ast.File)(nil)) {
		return f
	}
	return at
}
