package general

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"go/version"
	"regexp"
	"time"

	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
	"github.com/gobackoff/backoff/cmd/backoffvet/internal/rule"
)

var timeAfter = rule.New("timeafter",
	"report time.After in a loop whose other cases go on, where timers stay until they fire: before Go 1.23",
	timersStay, inspect.Analyzer)

func timersStay(p *rule.Pass) {
	if v := p.Pkg.GoVersion(); v == "" || version.Compare(v, "go1.23") >= 0 {
		return
	}
	root := p.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root()
	for c := range root.Preorder((*ast.SelectStmt)(nil)) {
		if around := loopAround(c); around != nil {
			timerStays(p, c.Node().(*ast.SelectStmt), around)
		}
	}
}

// loopAround returns the loop in which a statement is executed again and again, or nil.
func loopAround(c inspector.Cursor) ast.Node {
	for around := range c.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil), (*ast.BlockStmt)(nil)) {
		switch n := around.Node().(type) {
		case *ast.FuncLit:
			return nil
		case *ast.BlockStmt:
			if leaves(n.List) {
				return nil
			}
		default:
			return n
		}
	}
	return nil
}

func timerStays(p *rule.Pass, s *ast.SelectStmt, around ast.Node) {
	var timer *ast.CallExpr
	goesOn := false
	for _, clause := range s.Body.List {
		comm := clause.(*ast.CommClause)
		if after := afterOf(p, comm.Comm, around); after != nil {
			timer = after
			continue
		}
		goesOn = goesOn || comm.Comm != nil && !leaves(comm.Body) && !closes(comm.Comm)
	}
	if timer != nil && goesOn && !isBrief(p, timer) {
		p.Report(timer, "each round leaves a timer behind until it fires, in a module of a Go before 1.23: make one "+
			"timer before the loop, and Reset it")
	}
}

// isBrief reports whether a timer goes away so soon that not many gather.
func isBrief(p *rule.Pass, timer *ast.CallExpr) bool {
	v := p.TypesInfo.Types[timer.Args[0]].Value
	if v == nil {
		return false
	}
	d, exact := constant.Int64Val(constant.ToInt(v))
	return exact && time.Duration(d) < 5*time.Second
}

// afterOf returns the call of time.After from which a case receives, if the loop makes it.
func afterOf(p *rule.Pass, comm ast.Stmt, around ast.Node) *ast.CallExpr {
	e, ok := comm.(*ast.ExprStmt)
	if !ok {
		return nil
	}
	receive, ok := e.X.(*ast.UnaryExpr)
	if !ok {
		return nil
	}
	if call, ok := receive.X.(*ast.CallExpr); ok && isAfter(p.TypesInfo, call) {
		return call
	}
	return assignedAfter(p.TypesInfo, loop.VarOf(p.TypesInfo, receive.X), around)
}

func assignedAfter(info *types.Info, v *types.Var, around ast.Node) *ast.CallExpr {
	var found *ast.CallExpr
	loop.Inspect(around, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if ok && v != nil && assign.Tok == token.DEFINE && len(assign.Rhs) == 1 && loop.VarOf(info, assign.Lhs[0]) == v {
			if call, ok := assign.Rhs[0].(*ast.CallExpr); ok && isAfter(info, call) {
				found = call
			}
		}
		return found == nil
	})
	return found
}

func isAfter(info *types.Info, call *ast.CallExpr) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "After" {
		return false
	}
	f := info.Uses[s.Sel]
	return f != nil && f.Pkg() != nil && f.Pkg().Path() == "time"
}

// closes reports whether a case receives from a channel whose name says that it comes but once, at
// the end.
func closes(comm ast.Stmt) bool {
	var from ast.Expr
	switch comm := comm.(type) {
	case *ast.ExprStmt:
		from = comm.X
	case *ast.AssignStmt:
		from = comm.Rhs[0]
	}
	return from != nil && ends.MatchString(types.ExprString(from))
}

var ends = regexp.MustCompile(`(?i)clos|stop|done|quit|exit|shutdown|cancel`)

// leaves reports whether the last of some statements leaves the loop, or the function.
func leaves(body []ast.Stmt) bool {
	if len(body) == 0 {
		return false
	}
	switch s := body[len(body)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return s.Label != nil && s.Tok == token.BREAK || s.Tok == token.GOTO
	}
	return false
}
