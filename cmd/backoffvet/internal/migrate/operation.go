package migrate

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
)

// An operation is what a call retries: a function without a context, which becomes one with it.
type operation struct {
	lit   *ast.FuncLit // its literal, if nothing else calls it
	arg   ast.Expr     // the argument of the call
	plain ast.Expr     // the argument without a conversion to a type of the old library
}

// operation looks at what a call retries. The reason says why it cannot get a context.
func (f *file) operation(arg ast.Expr) (o operation, reason string) {
	o = operation{arg: arg, plain: ast.Unparen(arg)}
	if call, ok := o.plain.(*ast.CallExpr); ok && len(call.Args) == 1 && f.info.Types[call.Fun].IsType() {
		o.plain = ast.Unparen(call.Args[0])
	}
	if o.lit, _ = o.plain.(*ast.FuncLit); o.lit != nil {
		return o, ""
	}
	if o.lit = f.literalOf(o.plain); o.lit != nil {
		return o, ""
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
	each(e, func(call *ast.CallExpr) {
		reason = "the operation is the result of a call"
	})
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
	used := false
	for _, id := range f.usesOf(v) {
		used = used || encloses(lit.Body, id)
	}
	if !used || f.assigned(v, lit.Pos(), lit.End()) || f.declares(lit.Body, v.Name()) {
		return ""
	}
	return v.Name() + " "
}

// declares reports whether a body itself declares a name, which a parameter of this name would
// break.
func (f *file) declares(body *ast.BlockStmt, name string) bool {
	scope := f.info.Scopes[f.parents[body].(*ast.FuncLit).Type]
	return scope != nil && scope.Lookup(name) != nil
}

// results is the text of what a function returns, in the names that the file has for packages,
// or "".
func (f *file) results(fn ast.Expr) string {
	sig, ok := f.info.TypeOf(fn).Underlying().(*types.Signature)
	if !ok {
		return ""
	}
	results := sig.Results()
	if results.Len() == 1 {
		return "error"
	}
	return "(" + types.TypeString(results.At(0).Type(), f.qualifier) + ", error)"
}

// qualifier is the name of a package in the file.
func (f *file) qualifier(pkg *types.Package) string {
	if pkg == f.pkg {
		return ""
	}
	if imported := f.imported(pkg.Path()); imported != nil {
		return imported.Name()
	}
	return path.Base(pkg.Path())
}

// unnamed reports whether the results of a wrapped function have a type of a package that the file
// does not import.
func (f *file) unnamed(fn ast.Expr) bool {
	sig, ok := f.info.TypeOf(fn).Underlying().(*types.Signature)
	if !ok {
		return true
	}
	missing := false
	types.TypeString(sig.Results(), func(pkg *types.Package) string {
		missing = missing || pkg != f.pkg && f.imported(pkg.Path()) == nil
		return ""
	})
	return missing
}

// inLiteral reports whether a position is in the literal of an operation.
func (o operation) inLiteral(pos token.Pos) bool {
	return o.lit != nil && o.lit.Pos() <= pos && pos < o.lit.End()
}
