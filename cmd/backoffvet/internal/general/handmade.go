package general

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

const library = "github.com/gobackoff/backoff"

var handMade = ruleOfLoops("handmade",
	"report retries written by hand where the package imports "+library+", and write them with it", madeByHand)

// A handmade loop makes its attempts with the same or a doubling delay between them, and returns
// the error of the last one.
type handmade struct {
	call     *ast.CallExpr
	attempts ast.Expr
	delay    ast.Expr
	doubles  bool
	end      ast.Stmt // the return behind the loop
}

func madeByHand(p *rule.Pass, l *loop.Loop) {
	uses := slices.ContainsFunc(p.Pkg.Imports(), isLibrary)
	if !uses || l.Kind != loop.Retry || len(l.Attempts) != 1 || l.Counter == nil {
		return
	}
	ctx := l.Context(p.Pkg)
	h, ok := shape(p, l)
	if !ok || ctx == nil || !remote.IsContext(ctx.Var.Type()) || mentions(l.Func.Body, "run") {
		return
	}
	name, imported := libraryName(p, l)
	text := h.withLibrary(p, l, ctx.Expr, name)
	message := "this loop is a policy of backoff, written by hand; with it:\n" + text
	if !imported {
		p.Report(l.Stmt, message)
		return
	}
	p.Report(l.Stmt, message, analysis.SuggestedFix{
		Message:   "Let a backoff.Policy run this loop",
		TextEdits: []analysis.TextEdit{{Pos: h.from(p, l), End: h.end.End(), NewText: []byte(text)}},
	})
}

func isLibrary(pkg *types.Package) bool { return pkg.Path() == library }

// libraryName returns the name under which the file of a loop imports the library.
func libraryName(p *rule.Pass, l *loop.Loop) (string, bool) {
	for _, f := range p.Files {
		if l.Stmt.Pos() < f.FileStart || f.FileEnd < l.Stmt.Pos() {
			continue
		}
		for _, i := range f.Imports {
			if pkg := p.TypesInfo.PkgNameOf(i); pkg != nil && isLibrary(pkg.Imported()) {
				return pkg.Name(), pkg.Name() != "_" && pkg.Name() != "."
			}
		}
	}
	return "backoff", false
}

// shape recognizes such a loop: an attempt, return nil if it succeeded, and a wait that the counter
// leaves out after the last.
func shape(p *rule.Pass, l *loop.Loop) (h handmade, ok bool) {
	returns, isReturn := l.Next().(*ast.ReturnStmt)
	a := l.Attempts[0]
	if !isReturn || a.Err == nil || len(a.Results) != 1 || len(returns.Results) != 1 ||
		loop.VarOf(p.TypesInfo, returns.Results[0]) != a.Err {
		return h, false
	}
	h = handmade{call: a.Call, end: returns, attempts: limitOf(p, l)}
	rest, ok := h.attempt(p, l.Body.List, a)
	if !ok || len(rest) != 1 || h.attempts == nil || loop.Uses(p.TypesInfo, a.Call, l.Counter) {
		return h, false
	}
	return h, h.waits(p, l, rest[0])
}

// limitOf returns n of for i := 0; i < n; i++ and of for i := range n.
func limitOf(p *rule.Pass, l *loop.Loop) ast.Expr {
	switch s := l.Stmt.(type) {
	case *ast.RangeStmt:
		return s.X
	case *ast.ForStmt:
		from, ok := s.Init.(*ast.AssignStmt)
		cond, isBinary := s.Cond.(*ast.BinaryExpr)
		_, counts := s.Post.(*ast.IncDecStmt)
		if ok && isBinary && counts && cond.Op == token.LSS && isNumber(from.Rhs[0], "0") &&
			loop.VarOf(p.TypesInfo, cond.X) == l.Counter {
			return cond.Y
		}
	}
	return nil
}

func isNumber(e ast.Expr, value string) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Value == value
}

// attempt takes the attempt and its success from the statements of a body.
func (h *handmade) attempt(p *rule.Pass, body []ast.Stmt, a *loop.Attempt) ([]ast.Stmt, bool) {
	for i, s := range body {
		check, ok := s.(*ast.IfStmt)
		if !ok || check.Else != nil || !returnsNil(p, check.Body) || !isNilCheck(p, check.Cond, a.Err) {
			continue
		}
		switch {
		case check.Init == a.Node && i == 0:
			return body[1:], true
		case check.Init == nil && i == 1 && body[0] == a.Node:
			return body[2:], true
		}
	}
	return nil, false
}

func returnsNil(p *rule.Pass, body *ast.BlockStmt) bool {
	if len(body.List) != 1 {
		return false
	}
	r, ok := body.List[0].(*ast.ReturnStmt)
	return ok && len(r.Results) == 1 && p.TypesInfo.Types[r.Results[0]].IsNil()
}

func isNilCheck(p *rule.Pass, cond ast.Expr, err *types.Var) bool {
	b, ok := cond.(*ast.BinaryExpr)
	return ok && b.Op == token.EQL && loop.VarOf(p.TypesInfo, b.X) == err && p.TypesInfo.Types[b.Y].IsNil()
}

// waits recognizes if i < n-1 { wait }.
func (h *handmade) waits(p *rule.Pass, l *loop.Loop, s ast.Stmt) bool {
	guard, ok := s.(*ast.IfStmt)
	if !ok || guard.Init != nil || guard.Else != nil || len(guard.Body.List) != 1 || len(l.Waits) != 1 {
		return false
	}
	limit := types.ExprString(h.attempts)
	if types.ExprString(guard.Cond) != fmt.Sprintf("%s < %s - 1", l.Counter.Name(), limit) {
		return false
	}
	h.delay = l.Waits[0].Duration
	return h.delay != nil && isWait(guard.Body.List[0], l.Waits[0]) && h.takesDelay(p, l)
}

// isWait recognizes time.Sleep(d), and a select that returns the error of the context.
func isWait(s ast.Stmt, w *loop.Wait) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		return s.X == w.Node && sleepOf(w) != nil
	case *ast.SelectStmt:
		return s == w.Select && len(s.Body.List) == 2 && !slices.ContainsFunc(s.Body.List, func(c ast.Stmt) bool {
			body := c.(*ast.CommClause).Body
			return len(body) > 1 || len(body) == 1 && !returnsErr(body[0])
		})
	}
	return false
}

func returnsErr(s ast.Stmt) bool {
	r, ok := s.(*ast.ReturnStmt)
	return ok && len(r.Results) == 1 && strings.HasSuffix(types.ExprString(r.Results[0]), ".Err()")
}

// takesDelay takes the delay: d, or d << i.
func (h *handmade) takesDelay(p *rule.Pass, l *loop.Loop) bool {
	shift, ok := h.delay.(*ast.BinaryExpr)
	if ok && shift.Op == token.SHL && loop.VarOf(p.TypesInfo, shift.Y) == l.Counter {
		h.delay, h.doubles = shift.X, true
		n, constant := l.Constant(h.attempts)
		if !constant || n < 2 || n > 20 || p.TypesInfo.Types[h.attempts].Value == nil {
			return false
		}
	}
	return p.TypesInfo.Types[h.delay].Value != nil
}

// from returns where the code that the library replaces begins: var err error before the loop is a
// part of it.
func (h *handmade) from(p *rule.Pass, l *loop.Loop) token.Pos {
	from := l.Stmt.Pos()
	loop.Inspect(l.Func.Body, func(n ast.Node) bool {
		block, ok := n.(*ast.BlockStmt)
		if !ok {
			return true
		}
		if i := slices.Index(block.List, l.Stmt); i > 0 {
			if d, ok := block.List[i-1].(*ast.DeclStmt); ok && declares(p, d, l.Attempts[0].Err) {
				from = d.Pos()
			}
		}
		return true
	})
	return from
}

func declares(p *rule.Pass, d *ast.DeclStmt, v *types.Var) bool {
	g, ok := d.Decl.(*ast.GenDecl)
	if !ok || len(g.Specs) != 1 {
		return false
	}
	s, ok := g.Specs[0].(*ast.ValueSpec)
	return ok && len(s.Names) == 1 && p.TypesInfo.Defs[s.Names[0]] == v
}

// withLibrary returns the loop as the library runs it.
func (h *handmade) withLibrary(p *rule.Pass, l *loop.Loop, ctx, name string) string {
	schedule := fmt.Sprintf("%s.Constant(%s)", name, source(p, h.delay))
	if h.doubles {
		n, _ := l.Constant(h.attempts)
		schedule = fmt.Sprintf("%s.Exponential{Initial: %[2]s, Max: %[2]s << %d}", name, source(p, h.delay), n-2)
	}
	indent := strings.Repeat("\t", max(p.Fset.Position(l.Stmt.Pos()).Column-1, 0))
	return strings.Join([]string{
		fmt.Sprintf("run := %s.Policy{MaxAttempts: %s, Schedule: %s, Jitter: %[1]s.NoJitter}.Start(%[4]s)",
			name, source(p, h.attempts), schedule, ctx),
		fmt.Sprintf("for %s := range run.Attempts() {", ctx),
		"\terr := " + source(p, h.call),
		"\tif err == nil {",
		"\t\treturn nil",
		"\t}",
		"\trun.Fail(err)",
		"}",
		"return run.Err()",
	}, "\n"+indent)
}
