package library

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
)

var retryGaveUp = newRule("retrygaveup",
	"report a classifier that would retry what another policy gave up on: it is not asked about that", findRetryGaveUp)

const overrule = " To retry that all the same, let the operation return backoff.OfClass(err, backoff.ClassRetryable)."

func findRetryGaveUp(c *code) {
	for at := range c.root.Preorder((*ast.KeyValueExpr)(nil), (*ast.AssignStmt)(nil)) {
		if body := c.bodyOfFunc(c.classify(at)); body != nil {
			c.checkClassifier(body)
		}
	}
	for _, a := range c.attempts {
		c.checkNested(a)
	}
}

// classify returns the Classify that a statement or the member of a literal gives a policy, or nil.
// That of a Supervisor does not count, which asks its policy about everything.
func (c *code) classify(at inspector.Cursor) ast.Expr {
	switch n := at.Node().(type) {
	case *ast.KeyValueExpr:
		lit, ok := at.Parent().Node().(*ast.CompositeLit)
		if ok && typeName(c.info.TypeOf(lit)) == "Policy" && isNamed(n.Key, "Classify") && !c.isSupervised(at.Parent()) {
			return n.Value
		}
	case *ast.AssignStmt:
		to, ok := n.Lhs[0].(*ast.SelectorExpr)
		if ok && typeName(c.info.TypeOf(to.X)) == "Policy" && to.Sel.Name == "Classify" && !c.isForSupervisor(to.X) {
			return n.Rhs[0]
		}
	}
	return nil
}

func isNamed(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// isSupervised reports whether the literal of a policy is that of a Supervisor, or that of a
// variable which is.
func (c *code) isSupervised(lit inspector.Cursor) bool {
	switch parent := lit.Parent().Node().(type) {
	case *ast.KeyValueExpr:
		return isNamed(parent.Key, "Policy")
	case *ast.AssignStmt:
		return c.isForSupervisor(parent.Lhs[0])
	case *ast.ValueSpec:
		return c.isForSupervisor(parent.Names[0])
	}
	return false
}

// isForSupervisor reports whether e is the policy of a Supervisor, or a variable from which one
// gets its policy.
func (c *code) isForSupervisor(e ast.Expr) bool {
	if sel, ok := ast.Unparen(e).(*ast.SelectorExpr); ok {
		return typeName(c.info.TypeOf(sel.X)) == "Supervisor"
	}
	for at := range c.root.Preorder((*ast.KeyValueExpr)(nil)) {
		kv := at.Node().(*ast.KeyValueExpr)
		if isNamed(kv.Key, "Policy") && c.object(kv.Value) != nil && c.object(kv.Value) == c.object(e) {
			return true
		}
	}
	return false
}

// bodyOfFunc returns the body of a classifier, or of the function that RetryIf gets, if it is in
// this package.
func (c *code) bodyOfFunc(e ast.Expr) *ast.BlockStmt {
	if e == nil {
		return nil
	}
	if call, ok := c.valueOf(e).(*ast.CallExpr); ok && len(call.Args) == 1 {
		return c.bodyOfFunc(call.Args[0]) // RetryIf, or a conversion to Classifier
	}
	_, body := c.function(e)
	return body
}

// gaveUp are the names by which a classifier knows what other policies and breakers gave up on.
var gaveUp = []string{"ErrExhausted", "ErrBudget", "ErrOpen", "Error", "OpenError"}

func (c *code) checkClassifier(body *ast.BlockStmt) {
	at, ok := c.root.FindNode(body)
	if !ok {
		return
	}
	for id := range at.Preorder((*ast.Ident)(nil)) {
		obj := c.info.Uses[id.Node().(*ast.Ident)]
		if obj != nil && slices.Contains(gaveUp, qualified(obj)) && c.isWanted(id) {
			c.Report(id.Node(), "a policy does not ask its classifier about this: what another policy or a breaker gave up "+
				"on is final, whatever Classify says."+overrule)
		}
	}
}

// isWanted reports whether a condition with a name leads to a retry.
func (c *code) isWanted(at inspector.Cursor) bool {
	for ; ; at = at.Parent() {
		switch n := at.Node().(type) {
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				return false
			}
		case *ast.ReturnStmt:
			return isBool(c.info.TypeOf(n.Results[0]))
		case *ast.IfStmt:
			return c.returnsRetry(n.Body.List)
		case *ast.CaseClause:
			return c.returnsRetry(n.Body)
		case *ast.BlockStmt, *ast.FuncLit:
			return false
		}
	}
}

func isBool(t types.Type) bool { return types.Identical(types.Default(t), types.Typ[types.Bool]) }

// returnsRetry reports whether statements end with the class of an error that is retried.
func (c *code) returnsRetry(list []ast.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	ret, ok := list[len(list)-1].(*ast.ReturnStmt)
	if !ok || len(ret.Results) != 1 {
		return false
	}
	if v := c.info.Types[ret.Results[0]].Value; v != nil && v.String() == "true" {
		return true
	}
	obj := c.declared(ret.Results[0])
	return obj != nil && slices.Contains([]string{"ClassRetryable", "ClassThrottled", "ClassNotSent"}, qualified(obj))
}

// checkNested is about a policy that retries everything around another policy.
func (c *code) checkNested(a attempt) {
	policies, _ := c.policies(a.doer)
	if !slices.ContainsFunc(policies, c.retriesAll) || contains(a.body, c.marks) {
		return
	}
	ast.Inspect(a.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt, *ast.GoStmt:
			return false
		case *ast.CallExpr:
			if c.givesUp(n) {
				c.reportNested(n)
			}
		}
		return true
	})
}

func (c *code) reportNested(at analysis.Range) {
	c.Report(at, "what this policy gives up on is final to the policy around it, although that retries all errors: its "+
		"classifier is not asked."+overrule)
}

// retriesAll reports whether the classifier of a policy takes all errors for transient.
func (c *code) retriesAll(s settings) bool {
	body := c.bodyOfFunc(s["Classify"])
	return body != nil && len(body.List) == 1 && c.returnsRetry(body.List)
}

// marks reports whether n is OfClass.
func (c *code) marks(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	return ok && c.called(call) == "OfClass"
}

// givesUp reports whether a call is made under a policy or a hedge of more than one attempt.
func (c *code) givesUp(call *ast.CallExpr) bool {
	name := c.called(call)
	r, ok := runners[name]
	if !ok || name == "Breaker.Do" || name == "Supervisor.Run" {
		return false
	}
	doer := receiver(call)
	if r.doer != itself {
		doer = call.Args[r.doer]
	}
	policies, known := c.policies(doer)
	return !known || slices.ContainsFunc(policies, c.makesMore)
}

// makesMore reports whether a policy may make more than one attempt.
func (c *code) makesMore(s settings) bool {
	if s["MaxAttempts"] == nil {
		return true
	}
	v := c.info.Types[s["MaxAttempts"]].Value
	return v == nil || v.String() != "1"
}
