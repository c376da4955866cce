package library

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
)

var perCall = newRule("percall",
	"report a service, budget, breaker, hedge or HTTP client that is made for each call and so knows of no other", findPerCall)

// guards are the types whose values learn from the calls that share them.
var guards = map[string]bool{
	"RetryBudget": true, "Breaker": true, "hedge.Hedge": true, "guard.Service": true, "guard.Services": true,
	"pace.Pacer": true, "pace.HoldOff": true, "limit.Throttle": true, "limit.Concurrency": true, "limit.Rate": true,
	"backoffhttp.Transport": true,
}

func findPerCall(c *code) {
	kinds := []ast.Node{(*ast.CompositeLit)(nil), (*ast.CallExpr)(nil), (*ast.ValueSpec)(nil)}
	for at := range c.root.Preorder(kinds...) {
		what := c.makes(at)
		if what == "" || c.isInTest(at.Node()) || !c.isPerCall(at) {
			continue
		}
		c.Report(at.Node(), "this "+what+" is made for each call, and so it knows of no call before: it limits nothing. "+
			"Make it once, for all calls to the service.")
	}
}

// makes returns what a node makes, such as "Breaker", and "" if it makes no guard.
func (c *code) makes(at inspector.Cursor) string {
	switch n := at.Node().(type) {
	case *ast.CompositeLit:
		if name := typeName(c.info.TypeOf(n)); guards[name] && !keyed(n).has("Services") { // else a Transport has those of others
			return name
		}
	case *ast.ValueSpec:
		if n.Type != nil && len(n.Values) == 0 && !isPointer(c.info.TypeOf(n.Type)) && guards[typeName(c.info.TypeOf(n.Type))] {
			return typeName(c.info.TypeOf(n.Type))
		}
	case *ast.CallExpr:
		return c.makesByCall(n)
	}
	return ""
}

// isInTest reports whether a node is in a test file. Each test has guards of its own, and should.
func (c *code) isInTest(n ast.Node) bool {
	return strings.HasSuffix(c.Fset.File(n.Pos()).Name(), "_test.go")
}

func isPointer(t types.Type) bool {
	_, ok := t.Underlying().(*types.Pointer)
	return ok
}

func (c *code) makesByCall(call *ast.CallExpr) string {
	switch name := c.called(call); name {
	case "backoffhttp.Client", "backoffhttp.WrapClient":
		return "client"
	}
	if c.settingsOfNew(call) == nil || !guards[typeName(c.info.TypeOf(call))] {
		return ""
	}
	return typeName(c.info.TypeOf(call))
}

// isPerCall reports whether a value is made where a call is made, again for each call.
func (c *code) isPerCall(at inspector.Cursor) bool {
	scope := scopeOf(at)
	if scope == nil || !c.isRepeatedPerCall(*scope) {
		return false
	}
	return c.fate(at, *scope, 8) == runs
}

// scopeOf returns the innermost loop or function around a node; nil is the package.
func scopeOf(at inspector.Cursor) *inspector.Cursor {
	kinds := []ast.Node{(*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil), (*ast.FuncDecl)(nil)}
	for around := range at.Parent().Enclosing(kinds...) {
		if bodyOf(around.Node()) == nil || within(bodyOf(around.Node()), at.Node().Pos()) {
			return &around
		}
	}
	return nil
}

// isRepeatedPerCall reports whether a loop or function runs once for each call. What a program does
// once, in main, is no call in this sense.
func (c *code) isRepeatedPerCall(scope inspector.Cursor) bool {
	switch n := scope.Node().(type) {
	case *ast.FuncLit:
		return c.isOperation(n) || c.isHandler(n.Type)
	case *ast.FuncDecl:
		return !c.runsOnce(n, 10)
	}
	return true
}

func (c *code) isOperation(lit *ast.FuncLit) bool {
	return slices.ContainsFunc(c.attempts, func(a attempt) bool { return a.body == lit.Body })
}

func (c *code) isHandler(f *ast.FuncType) bool {
	return slices.ContainsFunc(f.Params.List, func(p *ast.Field) bool {
		return isType(c.info.TypeOf(p.Type), "net/http", "ResponseWriter")
	})
}

// runsOnce reports whether a program runs a function once: main, init, and what only these call, in
// one place.
func (c *code) runsOnce(decl *ast.FuncDecl, depth int) bool {
	if decl.Recv == nil && (decl.Name.Name == "init" || decl.Name.Name == "main" && c.Pkg.Name() == "main") {
		return true
	}
	if c.Pkg.Name() != "main" || depth == 0 {
		return false
	}
	uses := c.usesOf(c.info.Defs[decl.Name], c.root)
	if len(uses) != 1 || !isCalled(uses[0]) {
		return false
	}
	scope := scopeOf(uses[0])
	if scope == nil {
		return true
	}
	caller, ok := scope.Node().(*ast.FuncDecl)
	return ok && c.runsOnce(caller, depth-1)
}

// isCalled reports whether a name is that of a function that is called, as f() or x.f().
func isCalled(name inspector.Cursor) bool {
	return name.ParentEdgeKind() == edge.CallExpr_Fun || name.Parent().ParentEdgeKind() == edge.CallExpr_Fun
}

// usesOf returns where a name is used.
func (c *code) usesOf(obj types.Object, in inspector.Cursor) (uses []inspector.Cursor) {
	for id := range in.Preorder((*ast.Ident)(nil)) {
		if obj != nil && c.info.Uses[id.Node().(*ast.Ident)] == obj {
			uses = append(uses, id)
		}
	}
	return uses
}

// A fate is what becomes of a value in the loop or function that makes it.
type fate int

const (
	nothing fate = iota // it is not used, or only set up
	runs                // a call is made under it
	escapes             // it goes elsewhere, and may be shared
)

// fate follows a value from the expression that makes it.
func (c *code) fate(at, scope inspector.Cursor, depth int) fate {
	if depth == 0 {
		return escapes
	}
	if spec, ok := at.Node().(*ast.ValueSpec); ok {
		return c.fateOfVariable(c.info.Defs[spec.Names[0]], scope, depth)
	}
	switch at.ParentEdgeKind() {
	case edge.ParenExpr_X, edge.UnaryExpr_X, edge.KeyValueExpr_Value:
		return c.fate(at.Parent(), scope, depth)
	case edge.CompositeLit_Elts:
		return c.fateOfMember(at.Parent(), scope, depth)
	case edge.CallExpr_Args:
		return c.fateOfArgument(at.Parent(), scope, depth)
	case edge.SelectorExpr_X:
		return c.fateOfReceiver(at.Parent(), scope, depth)
	case edge.AssignStmt_Rhs, edge.ValueSpec_Values:
		return c.fateOfAssigned(at, scope, depth)
	case edge.BinaryExpr_X, edge.BinaryExpr_Y, edge.AssignStmt_Lhs, edge.ExprStmt_X:
		return nothing
	}
	return escapes
}

// fateOfMember is for what becomes part of a policy, or of the client around a Transport.
func (c *code) fateOfMember(lit, scope inspector.Cursor, depth int) fate {
	t := c.info.TypeOf(lit.Node().(*ast.CompositeLit))
	switch name := typeName(t); {
	case name == "Policy", name == "hedge.Hedge", name == "guard.Service", name == "backoffhttp.Transport", isType(t, "net/http", "Client"):
		return c.fate(lit, scope, depth-1)
	}
	return escapes
}

func (c *code) fateOfArgument(at, scope inspector.Cursor, depth int) fate {
	switch c.called(at.Node().(*ast.CallExpr)) {
	case "JoinBudgets", "backoffhttp.Client", "backoffhttp.WrapClient":
		return c.fate(at, scope, depth-1)
	case "DoValue", "hedge.Value":
		return runs
	}
	return escapes
}

// fateOfReceiver is for what a method is called on, or a field is set of.
func (c *code) fateOfReceiver(sel, scope inspector.Cursor, depth int) fate {
	if sel.ParentEdgeKind() == edge.AssignStmt_Lhs {
		return nothing
	}
	if sel.ParentEdgeKind() != edge.CallExpr_Fun {
		return escapes
	}
	call := sel.Parent().Node().(*ast.CallExpr)
	switch c.called(call) {
	case "Policy.Do", "Policy.Start", "Doer.Do", "Breaker.Do", "Breaker.Allow", "guard.Service.Do", "guard.Client.Do",
		"backoffhttp.Transport.RoundTrip":
		return runs
	case "guard.Services.For", "guard.Service.Tenant", "guard.Service.With":
		return c.fate(sel.Parent(), scope, depth-1)
	case "":
		return c.fateOfClient(call)
	}
	return nothing
}

func (c *code) fateOfClient(call *ast.CallExpr) fate {
	switch _, name := c.calledElsewhere(call); name {
	case "Client.Do", "Client.Get", "Client.Head", "Client.Post", "Client.PostForm":
		return runs
	case "Client.CloseIdleConnections":
		return nothing
	}
	return escapes
}

// fateOfAssigned is for what a variable, or a field of one, is set to.
func (c *code) fateOfAssigned(at, scope inspector.Cursor, depth int) fate {
	var to ast.Expr
	switch n := at.Parent().Node().(type) {
	case *ast.AssignStmt:
		if len(n.Lhs) == len(n.Rhs) {
			to = n.Lhs[at.ParentEdgeIndex()]
		}
	case *ast.ValueSpec:
		to = n.Names[at.ParentEdgeIndex()]
	}
	if sel, ok := to.(*ast.SelectorExpr); ok {
		to = sel.X
	}
	if to == nil {
		return escapes
	}
	return c.fateOfVariable(c.object(to), scope, depth)
}

// fateOfVariable is that of all places where a variable of the scope is used. One from outside the
// scope, or used in a closure or a loop within it, is shared.
func (c *code) fateOfVariable(obj types.Object, scope inspector.Cursor, depth int) fate {
	if obj == nil || !within(scope.Node(), obj.Pos()) || len(c.values.whole[obj]) > 1 {
		return escapes
	}
	all := nothing
	for _, use := range c.usesOf(obj, scope) {
		inner := scopeOf(use)
		if inner == nil || inner.Node() != scope.Node() {
			return escapes
		}
		all = max(all, c.fate(use, scope, depth-1))
	}
	return all
}

// bodyOf returns the body of a loop, nil for anything else.
func bodyOf(n ast.Node) *ast.BlockStmt {
	switch n := n.(type) {
	case *ast.ForStmt:
		return n.Body
	case *ast.RangeStmt:
		return n.Body
	}
	return nil
}

func within(n ast.Node, at token.Pos) bool { return n.Pos() <= at && at < n.End() }
