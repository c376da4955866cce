package migrate

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// settings are those of a BackOff, as the program makes it.
type settings struct {
	kind      string              // the name of what makes it; "" if nothing does
	fields    map[string]ast.Expr // of an ExponentialBackOff, and Interval of a constant one
	retries   ast.Expr            // of WithMaxRetries
	tries     ast.Expr            // of WithMaxTries
	elapsed   ast.Expr            // of WithMaxElapsedTime
	ctx       ast.Expr            // of WithContext
	v         *types.Var          // the variable that the call gets, or nil
	config    []ast.Stmt          // the statements that make it, which go away
	inert     []ast.Stmt          // those that do nothing any more, such as Reset
	consumers []ast.Node          // the calls that get it
}

func (s *settings) set(name string, e ast.Expr) {
	if s.fields == nil {
		s.fields = map[string]ast.Expr{}
	}
	s.fields[name] = e
}

// expressions are all the values.
func (s *settings) expressions() []ast.Expr {
	all := []ast.Expr{s.retries, s.tries, s.elapsed}
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
		s.set("Interval", call.Args[0])
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
func (c *cenkalti) setField(f *file, s *settings, name string, e ast.Expr) string {
	switch {
	case slices.Contains(exponentialFields, name), s.kind == "ConstantBackOff" && name == "Interval":
		s.set(name, e)
	case name == "Clock" && strings.HasSuffix(f.source(e), ".SystemClock"), name == "Stop" && strings.HasSuffix(f.source(e), ".Stop"):
	default:
		return "it sets " + name + ", which has no equivalent"
	}
	return ""
}

// readVariable reads a variable of the function: how it is made, and each use of it.
func (c *cenkalti) readVariable(f *file, id *ast.Ident, s *settings) string {
	v := f.local(id)
	if v == nil {
		return elsewhere
	}
	stmt, value := f.definition(v)
	if stmt == nil || listOf(f.parents[stmt]) == nil {
		return elsewhere
	}
	if reason := c.readBackOff(f, value, s); reason != "" {
		return reason
	}
	if s.v != nil && (len(s.consumers) != 1 || !f.sameList(stmt, s.config[0])) {
		return "its backoff has other uses, too"
	}
	s.v, s.consumers = v, nil
	s.config = append(s.config, stmt)
	for _, use := range f.usesOf(v) {
		if reason := c.readUse(f, use, s); reason != "" {
			return reason
		}
	}
	return ""
}

// readUse reads a use of the variable of a BackOff.
func (c *cenkalti) readUse(f *file, id *ast.Ident, s *settings) string {
	const other = "its backoff has other uses, too"
	switch parent := f.parents[id].(type) {
	case *ast.SelectorExpr:
		switch grand := f.parents[parent].(type) {
		case *ast.AssignStmt:
			return c.readAssignment(f, parent, grand, s)
		case *ast.CallExpr:
			if stmt, ok := f.parents[grand].(*ast.ExprStmt); ok && parent.Sel.Name == "Reset" {
				s.inert = append(s.inert, stmt)
				return ""
			}
		}
	case *ast.CallExpr:
		return c.readArgument(f, parent, s)
	}
	return other
}

// readAssignment reads an assignment to a field.
func (c *cenkalti) readAssignment(f *file, field *ast.SelectorExpr, assign *ast.AssignStmt, s *settings) string {
	i := slices.Index(assign.Lhs, ast.Expr(field))
	if i < 0 || assign.Tok != token.ASSIGN || len(assign.Lhs) != len(assign.Rhs) || !c.onlyFields(f, assign, s.v) {
		return "its backoff has other uses, too"
	}
	if !f.sameList(assign, s.config[0]) {
		return "its backoff is set only on a condition"
	}
	if !slices.Contains(s.config, ast.Stmt(assign)) {
		s.config = append(s.config, assign)
	}
	return c.setField(f, s, field.Sel.Name, assign.Rhs[i])
}

// onlyFields reports whether an assignment is to fields of the variable only.
func (c *cenkalti) onlyFields(f *file, assign *ast.AssignStmt, v *types.Var) bool {
	return !slices.ContainsFunc(assign.Lhs, func(e ast.Expr) bool {
		sel, ok := e.(*ast.SelectorExpr)
		return !ok || f.local(sel.X) != v
	})
}

// readArgument reads a use as an argument: of a call that retries, in the end.
func (c *cenkalti) readArgument(f *file, call *ast.CallExpr, s *settings) string {
	var n ast.Node = call
	for {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			break
		}
		switch name := c.name(f, call); {
		case strings.HasPrefix(name, "Retry"):
			s.consumers = append(s.consumers, call)
			return ""
		case name != "WithMaxRetries" && name != "WithContext" && name != "WithBackOff":
			return "its backoff has other uses, too"
		}
		n = f.parents[n]
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		s.consumers = append(s.consumers, n)
		return ""
	case *ast.ValueSpec:
		s.consumers = append(s.consumers, n)
		return ""
	}
	return "its backoff has other uses, too"
}

// sameList reports whether two statements are in the same list.
func (f *file) sameList(a, b ast.Stmt) bool { return f.parents[a] == f.parents[b] }
