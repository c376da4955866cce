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
	if name := sel.Sel.Name; name == "PermanentError" || name == "RetryAfterError" {
		c.marks = append(c.marks, mark{f: f, node: e, name: name, args: []ast.Expr{arg}})
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
		return !m.permanent() && (owner == nil || owner == r)
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
		if owner == nil || owner.reason == "" {
			c.rewriteMark(m, looked || owner == nil && remains)
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

// rewriteMark makes a mark one of this library, or puts one around it.
func (c *cenkalti) rewriteMark(m mark, around bool) {
	f, arg := m.f, m.args[0]
	before, after := gen("§backoff.Permanent("), ")"
	if !m.permanent() {
		wait, err := c.wait(m)
		if err != nil {
			return
		}
		before, after = gen("§backoff.RetryAfter("), ", "+wait+")"
	}
	switch {
	case around:
		f.insert(m.node.Pos(), before)
		f.insert(m.node.End(), after)
	case m.permanent():
		f.replace(m.node.Pos(), arg.Pos(), before)
		f.replace(arg.End(), m.node.End(), after)
	default:
		f.replace(m.node.Pos(), m.node.End(), before+c.failure(m)+after)
	}
}

func (m mark) permanent() bool { return strings.HasPrefix(m.name, "Permanent") }

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

// observe sets Observer to what calls the hook of a call. Only a literal, or what is the same at
// each retry, can be written there.
func (c *cenkalti) observe(r *retryCall, p *policy) error {
	if r.notify == nil {
		return nil
	}
	named := false
	each(r.notify, func(id *ast.Ident) { named = named || id.Name == "event" })
	_, literal := ast.Unparen(r.notify).(*ast.FuncLit)
	switch {
	case r.f.mentions(r.notify, c.path):
		return errors.New("its hook uses the library, too")
	case named:
		return errors.New("its hook uses the name event")
	case !literal && !r.f.movable(r.notify, r.call.Pos(), r.until()):
		return errors.New("its hook may change after the call")
	}
	p.set("Observer", "func(_ §context.Context, event §backoff.Event) {\nif event.Kind == §backoff.EventRetry {\n%s(event.Err, event.Wait)\n}\n}",
		r.f.source(r.notify))
	return nil
}
