package migrate

import (
	"errors"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// A mark is where the program says something about an error: Permanent or RetryAfter.
type mark struct {
	f    *file
	node ast.Expr
	name string
	args []ast.Expr
}

// findLiteral finds marks that are written as a literal, such as &backoff.PermanentError{Err: err}.
func (c *cenkalti) findLiteral(f *file, e *ast.UnaryExpr) {
	lit, ok := e.X.(*ast.CompositeLit)
	if !ok || e.Op != token.AND || len(lit.Elts) != 1 {
		return
	}
	sel, ok := lit.Type.(*ast.SelectorExpr)
	if !ok || !f.mentions(sel, c.path) {
		return
	}
	arg := lit.Elts[0]
	if pair, ok := arg.(*ast.KeyValueExpr); ok {
		arg = pair.Value
	}
	switch sel.Sel.Name {
	case "PermanentError":
		c.marks = append(c.marks, mark{f: f, node: e, name: "Permanent", args: []ast.Expr{arg}})
	case "RetryAfterError":
		c.marks = append(c.marks, mark{f: f, node: e, name: "RetryAfterError", args: []ast.Expr{arg}})
	}
}

// owner is the call whose operation has the mark in its text, or nil if any call may get it.
func (c *cenkalti) owner(m mark) *retryCall {
	var owner *retryCall
	for _, call := range c.calls {
		if call.f == m.f && call.op.inLiteral(m.node.Pos()) && (owner == nil || encloses(owner.op.lit, call.op.lit)) {
			owner = call
		}
	}
	return owner
}

// marksWaits reports whether an error of a call may say how long to wait.
func (c *cenkalti) marksWaits(r *retryCall) bool {
	return slices.ContainsFunc(c.marks, func(m mark) bool {
		owner := c.owner(m)
		return strings.HasPrefix(m.name, "RetryAfter") && (owner == nil || owner == r)
	})
}

// rewriteMarks rewrites the marks that migrated calls get. Where calls that stay may get them too,
// they are marks for both.
func (c *cenkalti) rewriteMarks() {
	if !slices.ContainsFunc(c.calls, func(r *retryCall) bool { return r.reason == "" }) {
		return
	}
	remains, looked := c.remains()
	for _, m := range c.marks {
		owner := c.owner(m)
		switch {
		case owner != nil && owner.reason != "":
		case looked || owner == nil && remains:
			c.double(m)
		default:
			c.replaceMark(m)
		}
	}
}

// remains reports whether anything but marks remains of the library, and whether the program looks
// at its marks.
func (c *cenkalti) remains() (remains, looked bool) {
	for _, f := range c.p.files {
		for _, sel := range f.selections(c.path) {
			if f.gone(sel.Pos()) || slices.ContainsFunc(c.marks, func(m mark) bool { return m.f == f && m.node.Pos() <= sel.Pos() && sel.End() <= m.node.End() }) {
				continue
			}
			remains = true
			looked = looked || sel.Sel.Name == "PermanentError" || sel.Sel.Name == "RetryAfterError"
		}
	}
	return remains, looked
}

// replaceMark makes a mark one of this library.
func (c *cenkalti) replaceMark(m mark) {
	f := m.f
	if m.name != "Permanent" {
		wait, err := c.wait(m)
		if err == nil {
			f.replace(m.node.Pos(), m.node.End(), gen("§backoff.RetryAfter(%s, %s)", c.failure(m), wait))
		}
		return
	}
	arg := m.args[0]
	f.replace(m.node.Pos(), arg.Pos(), gen("§backoff.Permanent("))
	f.replace(arg.End(), m.node.End(), ")")
}

// double puts a mark of this library around the old one.
func (c *cenkalti) double(m mark) {
	if m.name == "Permanent" {
		m.f.insert(m.node.Pos(), gen("§backoff.Permanent("))
		m.f.insert(m.node.End(), ")")
		return
	}
	if wait, err := c.wait(m); err == nil {
		m.f.insert(m.node.Pos(), gen("§backoff.RetryAfter("))
		m.f.insert(m.node.End(), ", "+wait+")")
	}
}

// wait is the text of the wait that a mark asks for.
func (c *cenkalti) wait(m mark) (string, error) {
	text, err := m.f.expression(m.args[0], c.path)
	if err != nil {
		return "", err
	}
	if m.name == "RetryAfter" && len(m.args) == 1 {
		if m.f.constant(m.args[0]) != nil {
			return gen("%s * §time.Second", text), nil
		}
		return gen("§time.Duration(%s) * §time.Second", text), nil
	}
	return text, nil
}

// failure is the text of the error that a mark is for. Before v7 a RetryAfter is without one.
func (c *cenkalti) failure(m mark) string {
	if len(m.args) > 1 && m.f.source(m.args[1]) != "nil" {
		return m.f.source(m.args[1])
	}
	return gen(`§errors.New("told to retry later")`)
}

// observe sets Observer to the hook of a call.
func (c *cenkalti) observe(r *retryCall, p *policy) error {
	if r.notify == nil {
		return nil
	}
	f := r.f
	if f.mentions(r.notify, c.path) {
		return errors.New("its hook uses the library, too")
	}
	event := "e"
	each(r.notify, func(id *ast.Ident) {
		if id.Name == "e" {
			event = "event"
		}
	})
	if lit, ok := ast.Unparen(r.notify).(*ast.FuncLit); ok {
		p.set("Observer", "%s", f.hookOf(lit, event))
		return nil
	}
	return errors.New("its hook is no function literal")
}

// hookOf is the text of an observer that does what a literal hook does.
func (f *file) hookOf(lit *ast.FuncLit, event string) string {
	var names, values []string
	fields := []string{".Err", ".Wait"}
	i := 0
	for _, param := range lit.Type.Params.List {
		for _, name := range param.Names {
			if v := f.info.Defs[name]; v != nil && len(f.usesOf(v)) > 0 {
				names, values = append(names, name.Name), append(values, event+fields[i])
			}
			i++
		}
	}
	assign := ""
	if len(names) > 0 {
		assign = strings.Join(names, ", ") + " := " + strings.Join(values, ", ") + "\n"
	}
	body := string(f.text[f.offset(lit.Body.Lbrace)+1 : f.offset(lit.Body.Rbrace)])
	return gen("func(_ §context.Context, %[1]s §backoff.Event) {\nif %[1]s.Kind != §backoff.EventRetry {\nreturn\n}\n%[2]s%[3]s\n}", event, assign, strings.TrimRight(body, " \t\n"))
}
