package migrate

import (
	"go/ast"
	"slices"
	"strings"
)

// A policy is a backoff.Policy to be written, field by field.
type policy struct {
	fields []string
}

// set adds a field.
func (p *policy) set(name, format string, args ...any) {
	p.fields = append(p.fields, "\t"+name+": "+gen(format, args...)+",\n")
}

// String is the literal.
func (p *policy) String() string {
	if len(p.fields) == 0 {
		return gen("§backoff.Policy{}")
	}
	return gen("§backoff.Policy{\n") + strings.Join(p.fields, "") + "}"
}

// retryAll keeps the errors that only this library knows to be permanent retried.
func (p *policy) retryAll() {
	p.set("Classify", "§backoff.RetryIf(func(error) bool { return true })")
}

// place puts a literal where a call can use it, and returns the name or the literal. It goes into a
// variable before the statement, unless it uses what the statement itself declares.
func (f *file) place(call *ast.CallExpr, base, literal string, uses []ast.Expr) string {
	stmt, ok := f.statement(call).(ast.Stmt)
	if ok && f.meanAll(uses, stmt) {
		name := f.fresh(base, call)
		f.insert(stmt.Pos(), name+" := "+literal+"\n")
		return name
	}
	return "(" + literal + ")"
}

func (f *file) meanAll(all []ast.Expr, at ast.Stmt) bool {
	return !slices.ContainsFunc(all, func(e ast.Expr) bool { return e != nil && !f.means(e, at.Pos()) })
}
