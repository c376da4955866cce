package general

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

// hearing returns the fix that makes time.Sleep a select, where the function returns an error, and
// zero values can be written for its other results. The error says why the last attempt failed,
// too.
func hearing(p *rule.Pass, l *loop.Loop, w *loop.Wait, ctx *loop.Signal) []analysis.SuggestedFix {
	call, ok := w.Node.(*ast.CallExpr)
	if !ok || ctx.Var == nil || sleepOf(w) == nil || !isStatement(l, call) {
		return nil
	}
	err, imports := endError(p, l, call, ctx.Expr+".Err()")
	f, ok := typeutil.Callee(p.TypesInfo, call).(*types.Func)
	results, returns := failure(p, l.Func.Type, err)
	if !ok || f.FullName() != "time.Sleep" || !returns {
		return nil
	}
	lines := []string{
		"select {",
		fmt.Sprintf("case <-%s:", ctx.Done),
		"\treturn " + results,
		fmt.Sprintf("case <-%s.After(%s):", types.ExprString(call.Fun.(*ast.SelectorExpr).X), source(p, w.Duration)),
		"}",
	}
	indent := strings.Repeat("\t", max(p.Fset.Position(call.Pos()).Column-1, 0))
	return []analysis.SuggestedFix{{
		Message: fmt.Sprintf("Wait for %s, too", ctx.Done),
		TextEdits: append(imports, analysis.TextEdit{
			Pos: call.Pos(), End: call.End(), NewText: []byte(strings.Join(lines, "\n"+indent)),
		}),
	}}
}

// endError returns the error of a context that ends a wait, joined with that of the last attempt if
// this has a name there, and the edits that the file needs for it.
func endError(p *rule.Pass, l *loop.Loop, at ast.Node, ended string) (string, []analysis.TextEdit) {
	scope := p.Pkg.Scope().Innermost(at.Pos())
	for _, a := range slices.Backward(l.Attempts) {
		if a.Err == nil || a.Truth || scope == nil {
			continue
		}
		if _, there := scope.LookupParent(a.Err.Name(), at.Pos()); there != a.Err {
			continue
		}
		if imports, ok := p.Importing("errors", at.Pos()); ok {
			return fmt.Sprintf("errors.Join(%s, %s)", a.Err.Name(), ended), imports
		}
	}
	return ended, nil
}

// isStatement reports whether a call is a statement of a block, and not that of a header.
func isStatement(l *loop.Loop, call *ast.CallExpr) bool {
	return loop.Has(l.Body, func(n ast.Node) bool {
		return slices.ContainsFunc(loop.Statements(n), func(s ast.Stmt) bool {
			e, ok := s.(*ast.ExprStmt)
			return ok && e.X == call
		})
	})
}

// failure returns what a function returns that fails with an error.
func failure(p *rule.Pass, f *ast.FuncType, err string) (string, bool) {
	if f.Results == nil || len(f.Results.List) == 0 {
		return "", false
	}
	var values []string
	for _, field := range f.Results.List {
		zero := zeroOf(p.TypesInfo.TypeOf(field.Type))
		for range max(len(field.Names), 1) {
			values = append(values, zero)
		}
	}
	last := f.Results.List[len(f.Results.List)-1]
	if t := p.TypesInfo.TypeOf(last.Type); t == nil || !loop.IsError(t) || len(last.Names) > 1 {
		return "", false
	}
	values[len(values)-1] = err
	for _, v := range values {
		if v == "" {
			return "", false
		}
	}
	return strings.Join(values, ", "), true
}

// zeroOf returns the zero value of a type as it is written, or "" if that needs the type's name.
func zeroOf(t types.Type) string {
	if t == nil {
		return ""
	}
	if _, ok := types.Unalias(t).(*types.TypeParam); ok {
		return ""
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return zeroOfBasic(u)
	case *types.Pointer, *types.Slice, *types.Map, *types.Interface, *types.Chan, *types.Signature:
		return "nil"
	}
	return ""
}

func zeroOfBasic(b *types.Basic) string {
	switch {
	case b.Info()&types.IsString != 0:
		return `""`
	case b.Info()&types.IsBoolean != 0:
		return "false"
	case b.Info()&types.IsNumeric != 0:
		return "0"
	}
	return ""
}

// source returns an expression as it is written.
func source(p *rule.Pass, e ast.Expr) string {
	file := p.Fset.File(e.Pos())
	text, err := p.ReadFile(file.Name())
	if from, to := file.Offset(e.Pos()), file.Offset(e.End()); err == nil && to <= len(text) {
		return string(text[from:to])
	}
	return types.ExprString(e)
}
