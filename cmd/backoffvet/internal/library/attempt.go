package library

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/ast/inspector"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
)

// An attempt is code that the library runs, maybe more than once: a function that a policy gets, if
// it is in this package, or the body of a loop over Run.Attempts.
type attempt struct {
	by     string           // what runs it, such as "Policy.Do"
	cursor inspector.Cursor // of the call, or of the loop
	doer   ast.Expr         // the policy, hedge or other Doer, or nil
	given  ast.Expr         // the context of the call, or nil
	params *ast.FieldList   // of the function; nil for a loop
	loop   *ast.RangeStmt   // nil for a function
	body   *ast.BlockStmt
	ctx    types.Object // the context of the attempt, or nil if it has no name
}

// A runner is a function of the library that runs attempts. The numbers are those of its arguments;
// the doer of a method is its receiver.
type runner struct{ doer, op int }

const itself = -1

var runners = map[string]runner{
	"Policy.Do":                {itself, 1},
	"Policy.Wrap":              {itself, 0},
	"Doer.Do":                  {itself, 1},
	"guard.Service.Do":         {1, 2},
	"guard.Client.Do":          {itself, 1},
	"Breaker.Do":               {itself, 1},
	"Breaker.Wrap":             {itself, 0},
	"Supervisor.Run":           {itself, 1},
	"control.Handle.Do":        {itself, 1},
	"control.Handle.Supervise": {1, 2},
	"DoValue":                  {1, 2},
	"poll.Until":               {1, 2},
	"poll.Value":               {1, 2},
	"hedge.Value":              {1, 2},
	"backoffsql.Tx":            {2, 4},
	"backoffsql.Transact":      {2, 3},
	"contrib/backoffpgx.Tx":    {2, 4},
}

func (m *model) attempt(c inspector.Cursor) (attempt, bool) {
	if loop, ok := c.Node().(*ast.RangeStmt); ok {
		return m.attemptOfLoop(c, loop)
	}
	call := c.Node().(*ast.CallExpr)
	name := m.called(call)
	r, ok := runners[name]
	if !ok || len(call.Args) <= r.op {
		return attempt{}, false
	}
	params, body := m.function(call.Args[r.op])
	if body == nil {
		return attempt{}, false
	}
	a := attempt{by: name, cursor: c, doer: receiver(call), params: params, body: body, ctx: m.firstParam(params)}
	if r.doer != itself {
		a.doer = call.Args[r.doer]
	}
	if r.op > 0 {
		a.given = call.Args[0]
	}
	return a, true
}

func (m *model) attemptOfLoop(c inspector.Cursor, loop *ast.RangeStmt) (attempt, bool) {
	if m.called(loop.X) != "Run.Attempts" {
		return attempt{}, false
	}
	a := attempt{by: "Run.Attempts", cursor: c, loop: loop, body: loop.Body}
	if key, ok := loop.Key.(*ast.Ident); ok && key.Name != "_" {
		a.ctx = m.info.ObjectOf(key)
	}
	run := receiver(ast.Unparen(loop.X).(*ast.CallExpr))
	if start, ok := m.valueOf(run).(*ast.CallExpr); ok && m.called(start) == "Policy.Start" {
		a.doer, a.given = receiver(start), start.Args[0]
	}
	return a, true
}

// valueOf returns the value of a variable that has one value only, and of anything else the
// expression itself.
func (m *model) valueOf(e ast.Expr) ast.Expr {
	e = ast.Unparen(e)
	if value := m.values.only(m.object(e)); value != nil {
		return ast.Unparen(value)
	}
	return e
}

// resultOf returns the call whose result a variable is where e names it, or nil.
func (m *model) resultOf(e ast.Expr) *ast.CallExpr { return m.values.lastCall(m.object(e), e.Pos()) }

// function returns the parameters and the body of a function that is in this package, whether e is
// its literal, its name, a method value or a variable that has it.
func (m *model) function(e ast.Expr) (*ast.FieldList, *ast.BlockStmt) {
	e = m.valueOf(e)
	if lit, ok := e.(*ast.FuncLit); ok {
		return lit.Type.Params, lit.Body
	}
	if decl := m.funcs[m.declared(e)]; decl != nil {
		return decl.Type.Params, decl.Body
	}
	return nil, nil
}

// firstParam returns the first parameter, or nil if it has no name.
func (m *model) firstParam(params *ast.FieldList) types.Object {
	if params.NumFields() == 0 || len(params.List[0].Names) == 0 || params.List[0].Names[0].Name == "_" {
		return nil
	}
	return m.info.ObjectOf(params.List[0].Names[0])
}

// mentions reports whether an identifier within n stands for obj.
func (m *model) mentions(n ast.Node, obj types.Object) bool {
	return loop.Uses(m.info, n, obj)
}

// contains reports whether n has a node that is so.
func contains(n ast.Node, is func(ast.Node) bool) bool { return loop.HasAnywhere(n, is) }

// declaration returns the declaration of the function around a node, or the file.
func declaration(at inspector.Cursor) inspector.Cursor {
	for f := range at.Enclosing((*ast.FuncDecl)(nil), (*ast.File)(nil)) {
		return f
	}
	return at
}
