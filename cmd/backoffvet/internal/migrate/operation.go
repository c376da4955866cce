package migrate

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// An operation is what a call retries: a function without a context, which becomes one with it.
type operation struct {
	lit   *ast.FuncLit // its literal, if nothing else calls it
	arg   ast.Expr     // the argument of the call
	plain ast.Expr     // the argument without a conversion to a type of the old library
}

// operation looks at what a call retries. The reason says why it cannot get a context.
func (f *file) operation(arg ast.Expr) (o operation, reason string) {
	o = operation{arg: arg, plain: ast.Unparen(f.unconverted(arg))}
	if o.lit, _ = o.plain.(*ast.FuncLit); o.lit == nil {
		o.lit = f.literalOf(o.plain)
	}
	if o.lit != nil {
		return o, ""
	}
	if f.results(o.plain) == "" {
		return o, "the operation returns a type that the file does not import"
	}
	return o, f.cannotWrap(o.plain)
}

// literalOf is the literal of a variable that is used here only.
func (f *file) literalOf(e ast.Expr) *ast.FuncLit {
	v := f.local(e)
	if v == nil || len(f.usesOf(v)) != 1 {
		return nil
	}
	stmt, value := f.definition(v)
	if decl, ok := stmt.(*ast.DeclStmt); ok && decl.Decl.(*ast.GenDecl).Specs[0].(*ast.ValueSpec).Type != nil {
		return nil
	}
	lit, _ := value.(*ast.FuncLit)
	return lit
}

// cannotWrap says why a function around this one would not do the same.
func (f *file) cannotWrap(e ast.Expr) string {
	reason := ""
	each(e, func(*ast.CallExpr) { reason = "the operation is the result of a call" })
	if v := f.local(e); v != nil && f.assigned(v, e.Pos(), f.function(e).End()) {
		reason = "the operation changes after the call"
	}
	return reason
}

// withContext makes the operation take a context. Where it uses the one of the call, it gets
// that of the attempt.
func (f *file) withContext(o operation, ctx ast.Expr) {
	if o.plain != ast.Unparen(o.arg) {
		f.replace(o.arg.Pos(), o.plain.Pos(), "")
		f.replace(o.plain.End(), o.arg.End(), "")
	}
	if o.lit != nil {
		f.replace(o.lit.Type.Params.Pos(), o.lit.Type.Params.End(), gen("(%s§context.Context)", f.parameter(o.lit, ctx)))
		return
	}
	f.insert(o.plain.Pos(), gen("func(§context.Context) %s { return ", f.results(o.plain)))
	f.insert(o.plain.End(), "() }")
}

// parameter is the name of the context that a literal gets, with a space, or "" if it uses none or
// keeps one of its own.
func (f *file) parameter(lit *ast.FuncLit, ctx ast.Expr) string {
	v := f.local(ctx)
	if v == nil {
		return ""
	}
	used := slices.ContainsFunc(f.usesOf(v), func(id *ast.Ident) bool { return encloses(lit.Body, id) })
	if !used || f.assigned(v, lit.Pos(), lit.End()) || f.info.Scopes[lit.Type].Lookup(v.Name()) != nil {
		return ""
	}
	return v.Name() + " "
}

// results is the text of what a function returns, in the names that the file has for packages. It
// is "" if the file has no name for one.
func (f *file) results(fn ast.Expr) string {
	sig, ok := f.info.TypeOf(fn).Underlying().(*types.Signature)
	var all []string
	for i := 0; ok && i < sig.Results().Len(); i++ {
		all = append(all, types.TypeString(sig.Results().At(i).Type(), func(pkg *types.Package) string {
			switch imported := f.imported(pkg.Path()); {
			case pkg == f.pkg:
				return ""
			case imported != nil:
				return imported.Name()
			}
			ok = false
			return ""
		}))
	}
	if !ok {
		return ""
	}
	return "(" + strings.Join(all, ", ") + ")"
}

// inLiteral reports whether a position is in the literal of an operation.
func (o operation) inLiteral(pos token.Pos) bool {
	return o.lit != nil && o.lit.Pos() <= pos && pos < o.lit.End()
}
