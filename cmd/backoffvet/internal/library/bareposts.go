package library

import (
	"go/ast"
	"go/constant"
	"slices"
	"strings"
)

var barePosts = newRule("bareposts",
	"report a POST that a policy sends again without a word on whether that is safe", findBarePosts)

func findBarePosts(c *code) {
	for _, a := range c.attempts {
		if c.repeatsAnything(a) && !contains(a.body, c.knowsKeys) {
			c.checkPosts(a)
		}
	}
}

// repeatsAnything reports whether a policy sends an operation again that may have been executed.
// One that says whether the operation may be sent again, or which errors to retry, knows better.
func (c *code) repeatsAnything(a attempt) bool {
	policies, known := c.policies(a.doer)
	return known && slices.ContainsFunc(policies, func(s settings) bool {
		return c.makesMore(s) && !s.has("Idempotency") && c.isUsual(s["Classify"])
	})
}

// isUsual reports whether a classifier is one that takes a 503 for transient.
func (c *code) isUsual(classify ast.Expr) bool {
	if classify == nil {
		return true
	}
	obj := c.declared(classify)
	return obj != nil && slices.Contains([]string{"DefaultClassifier", "backoffhttp.Classify"}, qualified(obj))
}

// knowsKeys reports whether n names idempotency keys: a header of a request, or a function of this
// library.
func (c *code) knowsKeys(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BasicLit:
		return strings.Contains(strings.ToLower(n.Value), "idempotency")
	case *ast.Ident:
		return strings.Contains(n.Name, "Idempotency")
	}
	return false
}

func (c *code) checkPosts(a attempt) {
	ast.Inspect(a.body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok && c.posts(a, call) {
			c.Report(call, "this POST may be executed twice: the policy sends it again also after a failure that hides "+
				"whether the server executed it, such as a timeout. Say in the policy what the request is: "+
				"Idempotency: backoff.NonIdempotent, backoff.Keyed (and send the key), or backoff.Idempotent.")
		}
		return true
	})
}

// posts reports whether a call sends, or makes, a request that is not idempotent. A client of
// package backoffhttp sends those once, whatever the policy around it says.
func (c *code) posts(a attempt, call *ast.CallExpr) bool {
	path, name := c.calledElsewhere(call)
	if path != "net/http" {
		return false
	}
	switch name {
	case "Post", "PostForm":
		return true
	case "Client.Post", "Client.PostForm":
		return !c.mayBeOurs(receiver(call))
	case "NewRequest", "NewRequestWithContext":
		return c.isPost(call) && !c.sentByOurs(a)
	case "Client.Do":
		return c.sendsFromOutside(a, call.Args[0]) && !c.mayBeOurs(receiver(call))
	}
	return false
}

// sendsFromOutside reports whether a request that was made before its attempts is a POST without a
// key.
func (c *code) sendsFromOutside(a attempt, req ast.Expr) bool {
	made := c.resultOf(req)
	if made == nil || a.body.Pos() <= made.Pos() && made.Pos() < a.body.End() || !c.isPost(made) {
		return false
	}
	around, ok := c.root.FindNode(made)
	return ok && !contains(declaration(around).Node(), c.knowsKeys)
}

// isPost reports whether a call makes a request whose method is POST or PATCH.
func (c *code) isPost(call *ast.CallExpr) bool {
	_, name := c.calledElsewhere(call)
	method := map[string]int{"NewRequest": 0, "NewRequestWithContext": 1}
	i, ok := method[name]
	if !ok || len(call.Args) <= i || c.info.Types[call.Args[i]].Value == nil {
		return false
	}
	text := constant.StringVal(c.info.Types[call.Args[i]].Value)
	return text == "POST" || text == "PATCH"
}

// sentByOurs reports whether what sends the requests of an attempt may be a client of package
// backoffhttp: each client that is seen may be one, or none is seen.
func (c *code) sentByOurs(a attempt) bool {
	return c.hasHTTP && !contains(a.body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return false
		}
		path, name := c.calledElsewhere(call)
		return path == "net/http" && name == "Client.Do" && !c.mayBeOurs(receiver(call))
	})
}

// mayBeOurs reports whether a client may be one of package backoffhttp: the package has such, and
// the client is neither http.DefaultClient nor a literal without a Transport.
func (c *code) mayBeOurs(client ast.Expr) bool {
	obj := c.declared(client)
	if !c.hasHTTP || obj != nil && obj.Name() == "DefaultClient" {
		return false
	}
	lit, ok := pointed(c.valueOf(pointed(client))).(*ast.CompositeLit)
	return !ok || keyed(lit).has("Transport")
}

// makesClients reports whether the package makes clients of package backoffhttp.
func (m *model) makesClients() bool {
	for at := range m.root.Preorder((*ast.SelectorExpr)(nil)) {
		obj := m.declared(at.Node().(*ast.SelectorExpr))
		if obj != nil && slices.Contains([]string{"backoffhttp.Client", "backoffhttp.WrapClient", "backoffhttp.Transport"}, qualified(obj)) {
			return true
		}
	}
	return false
}
