package migrate

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
)

// settings are those of a BackOff, as the program makes it.
type settings struct {
	kind    string              // the name of what makes it; "" if nothing does
	fields  map[string]ast.Expr // of an ExponentialBackOff, and Interval of a constant one
	retries ast.Expr            // of WithMaxRetries
	tries   ast.Expr            // of WithMaxTries
	elapsed ast.Expr            // of WithMaxElapsedTime
	ctx     ast.Expr            // of WithContext
	v       *types.Var          // the variable that the call gets, or nil
	config  []ast.Stmt          // the statements that make it, which go away
	inert   []ast.Stmt          // those that do nothing any more, such as Reset
}

// expressions are all the values.
func (s *settings) expressions() []ast.Expr {
	all := []ast.Expr{s.retries, s.tries, s.elapsed, s.ctx}
	for _, e := range s.fields {
		all = append(all, e)
	}
	return slices.DeleteFunc(all, func(e ast.Expr) bool { return e == nil })
}

const elsewhere = "its backoff is made elsewhere"

// readBackOff reads how a BackOff is made. It returns why it does not understand that.
func (c *cenkalti) readBackOff(f *file, e ast.Expr, s *settings) string {
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		return c.readConstructor(f, e, s)
	case *ast.Ident:
		return c.readVariable(f, e, s)
	}
	return elsewhere
}

func (c *cenkalti) readConstructor(f *file, call *ast.CallExpr, s *settings) string {
	name := c.name(f, call)
	switch name {
	case "NewExponentialBackOff":
		s.kind = "ExponentialBackOff"
		if len(call.Args) > 0 {
			return elsewhere
		}
		return ""
	case "NewConstantBackOff":
		s.kind = "ConstantBackOff"
		s.fields["Interval"] = call.Args[0]
		return ""
	case "WithMaxRetries", "WithContext":
		if reason := c.readBackOff(f, call.Args[0], s); reason != "" {
			return reason
		}
		return s.wrap(name, call.Args[1])
	}
	return elsewhere
}

// wrap adds what WithMaxRetries or WithContext adds.
func (s *settings) wrap(name string, e ast.Expr) string {
	to := &s.retries
	if name == "WithContext" {
		to = &s.ctx
	}
	if *to != nil {
		return "it has " + name + " twice"
	}
	*to = e
	return ""
}

var exponentialFields = []string{"InitialInterval", "RandomizationFactor", "Multiplier", "MaxInterval", "MaxElapsedTime"}

// setField sets a field of a BackOff.
func (s *settings) setField(name string, e ast.Expr) string {
	if !slices.Contains(exponentialFields, name) && (s.kind != "ConstantBackOff" || name != "Interval") {
		return "it sets " + name + ", which has no equivalent"
	}
	s.fields[name] = e
	return ""
}

// readVariable reads a variable of the function: how it is made, and what else uses it.
func (c *cenkalti) readVariable(f *file, id *ast.Ident, s *settings) string {
	v := f.local(id)
	if v == nil {
		return elsewhere
	}
	stmt, value := f.definition(v)
	if stmt == nil || loop.Statements(f.parents[stmt]) == nil {
		return elsewhere
	}
	if reason := c.readBackOff(f, value, s); reason != "" {
		return reason
	}
	if s.v != nil && f.parents[stmt] != f.parents[s.config[0]] {
		return otherUses
	}
	s.v = v
	s.config = append(s.config, stmt)
	for _, use := range f.usesOf(v) {
		if use == id {
			continue
		}
		if reason := c.readUse(f, use, s); reason != "" {
			return reason
		}
	}
	return ""
}

const otherUses = "its backoff has other uses, too"

// readUse reads a use of the variable of a BackOff beside that in a call.
func (c *cenkalti) readUse(f *file, id *ast.Ident, s *settings) string {
	field, ok := f.parents[id].(*ast.SelectorExpr)
	if !ok {
		return otherUses
	}
	switch parent := f.parents[field].(type) {
	case *ast.AssignStmt:
		return c.readAssignment(f, field, parent, s)
	case *ast.CallExpr:
		if stmt, ok := f.parents[parent].(*ast.ExprStmt); ok && field.Sel.Name == "Reset" {
			s.inert = append(s.inert, stmt)
			return ""
		}
	}
	return otherUses
}

// readAssignment reads an assignment to a field, and to no other variable.
func (c *cenkalti) readAssignment(f *file, field *ast.SelectorExpr, assign *ast.AssignStmt, s *settings) string {
	i := slices.Index(assign.Lhs, ast.Expr(field))
	others := slices.ContainsFunc(assign.Lhs, func(e ast.Expr) bool {
		sel, ok := e.(*ast.SelectorExpr)
		return !ok || f.local(sel.X) != s.v
	})
	switch {
	case i < 0 || assign.Tok != token.ASSIGN || len(assign.Lhs) != len(assign.Rhs) || others:
		return otherUses
	case f.parents[assign] != f.parents[s.config[0]]:
		return "its backoff is set only on a condition"
	case !slices.Contains(s.config, ast.Stmt(assign)):
		s.config = append(s.config, assign)
	}
	return s.setField(field.Sel.Name, assign.Rhs[i])
}
