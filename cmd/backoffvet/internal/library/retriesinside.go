package library

import (
	"go/ast"
	"go/constant"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

var retriesInside = newRule("retriesinside",
	"report a policy around a client that retries by itself, so that attempts multiply", findRetriesInside)

func findRetriesInside(c *code) {
	for _, a := range c.attempts {
		if a.by == "Breaker.Do" || a.by == "Breaker.Wrap" || strings.HasPrefix(a.by, "poll.") || a.by == "Supervisor.Run" {
			continue
		}
		if policies, known := c.policies(a.doer); !known || slices.ContainsFunc(policies, c.makesMore) {
			c.checkCalls(a)
		}
	}
}

// checkCalls reports the first call in an attempt of each client that retries.
func (c *code) checkCalls(a attempt) {
	seen := map[*client]bool{}
	ast.Inspect(a.body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if k := c.clientCalled(call); k != nil && !seen[k] && c.retries(k, c.clientOf(k, call)) {
			seen[k] = true
			c.Report(call, k.message())
		}
		return true
	})
}

func (k *client) message() string {
	if k.known {
		return k.name + " retries this by itself, and the policy around it takes what it gave up on for final: " +
			"its own limits do not hold. " + k.advice + "."
	}
	return k.name + " retries this by itself, so its attempts multiply with those of the policy around it. " +
		k.advice + "."
}

// clientCalled returns the client of which a call is one that goes to a server, or nil.
func (c *code) clientCalled(call *ast.CallExpr) *client {
	fn := c.callee(call)
	if fn == nil || fn.Pkg() == nil {
		return nil
	}
	k := clientOf(fn.Pkg().Path())
	switch {
	case k == nil:
		return nil
	case len(k.makes) == 0:
		if isLoop(fn) {
			return k
		}
	case fn.Signature().Recv() == nil && fn.Pkg().Name() != "retryablehttp":
		return nil
	case takesContext(fn) || sends[fn.Name()]:
		return k
	}
	return nil
}

// sends are methods that send a request and take no context.
var sends = map[string]bool{
	"Do": true, "Get": true, "Head": true, "Post": true, "PostForm": true, "Put": true, "Patch": true, "Delete": true,
	"Execute": true, "Send": true, "Read": true, "Write": true,
}

// loops are the names of such functions.
var loops = regexp.MustCompile("^(Retry|Do|Exponential|Constant|Fibonacci)")

// isLoop reports whether a function of a retry library runs a function that it gets.
func isLoop(fn *types.Func) bool {
	return loops.MatchString(fn.Name()) && takesFunc(fn) && returnsError(fn)
}

func takesFunc(fn *types.Func) bool {
	for v := range fn.Signature().Params().Variables() {
		if _, ok := v.Type().Underlying().(*types.Signature); ok {
			return true
		}
	}
	return false
}

func returnsError(fn *types.Func) bool {
	results := fn.Signature().Results()
	return results.Len() > 0 && isError(results.At(results.Len()-1).Type())
}

func takesContext(fn *types.Func) bool {
	params := fn.Signature().Params()
	return params.Len() > 0 && isContext(params.At(0).Type())
}

// clientOf returns the variable or field that is the client of an expression such as
// s.client.R().Get, or of what was made with it, or nil.
func (c *code) clientOf(k *client, e ast.Expr) (found types.Object) {
	for e != nil {
		var obj types.Object
		switch x := ast.Unparen(e).(type) {
		case *ast.CallExpr:
			e = x.Fun
		case *ast.UnaryExpr:
			e = x.X
		case *ast.SelectorExpr:
			obj, e = c.info.ObjectOf(x.Sel), x.X
		case *ast.Ident:
			obj, e = c.info.ObjectOf(x), nil
		default:
			e = nil
		}
		if v, ok := obj.(*types.Var); ok && k.has(v.Type()) && !isOption(v.Type()) {
			found = v
		}
	}
	if from := c.values.only(found); from != nil {
		if other := c.clientOf(k, from); other != nil {
			return other
		}
	}
	return found
}

// has reports whether a type is one of the client's modules.
func (k *client) has(t types.Type) bool {
	obj := typeObject(t)
	return obj != nil && obj.Pkg() != nil && clientOf(obj.Pkg().Path()) == k
}

// about returns the client that the statement around a name makes or sets up, or nil if that is not
// seen.
func (c *code) about(k *client, at inspector.Cursor) types.Object {
	for around := range at.Enclosing((*ast.KeyValueExpr)(nil), (*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil), (*ast.ExprStmt)(nil)) {
		switch n := around.Node().(type) {
		case *ast.KeyValueExpr:
			if obj := c.clientOf(k, n.Key); obj != nil {
				return obj
			}
		case *ast.AssignStmt:
			return c.clientOf(k, n.Lhs[0])
		case *ast.ValueSpec:
			return c.clientOf(k, n.Names[0])
		case *ast.ExprStmt:
			return c.clientOf(k, n.X)
		}
	}
	return nil
}

// retries reports whether the package makes a client, and lets it retry. What is said of another
// client does not count.
func (c *code) retries(k *client, of types.Object) bool {
	made := len(k.makes) == 0
	for at := range c.root.Preorder((*ast.Ident)(nil)) {
		obj := c.info.Uses[at.Node().(*ast.Ident)]
		if obj == nil || obj.Pkg() == nil || clientOf(obj.Pkg().Path()) != k && obj.Name() != "WithRetry" {
			continue
		}
		if about := c.about(k, at); of != nil && about != nil && about != of {
			continue
		}
		if slices.Contains(k.hooks, obj.Name()) || c.isOff(k, at, obj.Name()) {
			return false
		}
		if slices.Contains(k.makes, obj.Name()) {
			if !c.isPlain(at) {
				return false
			}
			made = true
		}
	}
	return made
}

// isOff reports whether a name is that of a limit, and its number switches retries off, or is not
// known.
func (c *code) isOff(k *client, at inspector.Cursor, name string) bool {
	most, ok := k.limits[name]
	if !ok {
		return false
	}
	n, known := c.number(valueGiven(at))
	return !known || n <= most
}

// valueGiven returns what a field or an option gets: x of Name: x, y.Name = x and y.Name(x).
func valueGiven(at inspector.Cursor) ast.Expr {
	if _, ok := at.Parent().Node().(*ast.SelectorExpr); ok {
		at = at.Parent()
	}
	switch n := at.Parent().Node().(type) {
	case *ast.KeyValueExpr:
		return n.Value
	case *ast.AssignStmt:
		return n.Rhs[0]
	case *ast.CallExpr:
		if len(n.Args) > 0 {
			return n.Args[0]
		}
	}
	return nil
}

// number returns a constant, or the one that a function gets, as aws.Int(0).
func (c *code) number(e ast.Expr) (int64, bool) {
	if e == nil {
		return 0, false
	}
	if v := c.info.Types[e].Value; v != nil {
		return constant.Int64Val(constant.ToInt(v))
	}
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 1 {
		return c.number(call.Args[0])
	}
	return 0, false
}

// isPlain reports whether the code shows the options with which a client is made: none is the
// parameter of a function, or a field.
func (c *code) isPlain(at inspector.Cursor) bool {
	if _, ok := at.Parent().Node().(*ast.SelectorExpr); ok {
		at = at.Parent()
	}
	call, ok := at.Parent().Node().(*ast.CallExpr)
	return ok && !call.Ellipsis.IsValid() && !slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
		return isOption(c.info.TypeOf(arg)) && !c.isShown(arg)
	})
}

// isOption reports whether a type is one of options, by its name.
func isOption(t types.Type) bool {
	obj := typeObject(t)
	return obj != nil && (strings.Contains(obj.Name(), "Option") || strings.Contains(obj.Name(), "Config"))
}

func (c *code) isShown(e ast.Expr) bool {
	if c.info.Types[e].IsNil() {
		return true
	}
	switch pointed(c.valueOf(pointed(e))).(type) {
	case *ast.CompositeLit, *ast.CallExpr:
		return true
	}
	return false
}
