package migrate

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"time"
)

const retryablePath = "github.com/hashicorp/go-retryablehttp"

// A retryableClient is a client of go-retryablehttp, as a function makes it.
type retryableClient struct {
	*site
	v        *types.Var
	def      ast.Stmt            // where it is made
	fields   map[string]ast.Expr // what is set, those of its HTTPClient as "HTTPClient.Timeout"
	retries  []ast.Stmt          // the statements that set how it retries
	others   []ast.Stmt          // those that set something else
	standard []*ast.CallExpr     // of StandardClient
	kept     bool                // something else needs the client itself
	ours     bool                // it has a policy already
}

// retryFields are the fields that say how a client retries.
var retryFields = []string{"RetryMax", "RetryWaitMin", "RetryWaitMax", "CheckRetry", "Backoff", "ErrorHandler"}

func migrateRetryableHTTP(p *program) {
	for _, f := range p.files {
		if f.imported(retryablePath) == nil {
			continue
		}
		each(f.syntax, func(call *ast.CallExpr) {
			switch name, _ := strings.CutPrefix(f.callee(call), retryablePath+"."); name {
			case "NewClient":
				p.client(f, call)
			case "Get", "Head", "Post", "PostForm":
				p.site(f, call).stays("all callers of %s share its client", name)
			}
		})
		each(f.syntax, func(lit *ast.CompositeLit) {
			if types.TypeString(f.info.TypeOf(lit), nil) == retryablePath+".Client" {
				p.site(f, lit).stays("the client is a literal: begin with NewClient")
			}
		})
	}
}

// client migrates a client, unless it has a policy already.
func (p *program) client(f *file, call *ast.CallExpr) {
	c := &retryableClient{site: &site{f: f, node: call}, fields: map[string]ast.Expr{}}
	c.read(call)
	if c.ours {
		return
	}
	p.sites = append(p.sites, c.site)
	if c.reason == "" {
		c.rewrite()
	}
}

// read reads all uses of the variable of a client.
func (c *retryableClient) read(call *ast.CallExpr) {
	assign, ok := c.f.parents[call].(*ast.AssignStmt)
	if ok && len(assign.Lhs) == 1 && assign.Tok == token.DEFINE && listOf(c.f.parents[assign]) != nil {
		c.v = c.f.local(assign.Lhs[0])
	}
	if c.v == nil {
		c.stays("the client is not made in a variable of the function")
		return
	}
	c.def = assign
	for _, id := range c.f.usesOf(c.v) {
		c.stays2(c.readUse(id))
	}
}

// readUse reads a use of the client.
func (c *retryableClient) readUse(id *ast.Ident) string {
	f := c.f
	sel, _ := f.parents[id].(*ast.SelectorExpr)
	if sel == nil {
		c.kept = true
		return ""
	}
	name := sel.Sel.Name
	if call, ok := f.parents[sel].(*ast.CallExpr); ok {
		if name == "StandardClient" {
			c.standard = append(c.standard, call)
		} else {
			c.kept = true
		}
		return ""
	}
	if outer, ok := f.parents[sel].(*ast.SelectorExpr); ok && name == "HTTPClient" {
		sel, name = outer, "HTTPClient."+outer.Sel.Name
	}
	assign, ok := f.parents[sel].(*ast.AssignStmt)
	i := -1
	if ok {
		i = slices.Index(assign.Lhs, ast.Expr(sel))
	}
	if i < 0 || len(assign.Lhs) != len(assign.Rhs) || assign.Tok != token.ASSIGN {
		c.kept = true
		return ""
	}
	return c.readField(name, assign, assign.Rhs[i])
}

// readField reads the value of a field.
func (c *retryableClient) readField(name string, assign *ast.AssignStmt, e ast.Expr) string {
	list, isRetry := &c.others, slices.Contains(retryFields, name)
	c.ours = c.ours || c.isOurs(e)
	switch inList := c.f.sameList(assign, c.def); {
	case isRetry && !inList:
		return name + " is set only on a condition"
	case isRetry:
		list = &c.retries
	case !inList:
		c.kept = true
	}
	if c.fields[name] != nil {
		if isRetry {
			return name + " is set twice"
		}
		c.kept = true
	}
	c.fields[name] = e
	if !slices.Contains(*list, ast.Stmt(assign)) {
		*list = append(*list, assign)
	}
	return ""
}

// isOurs reports whether an expression is something of this library.
func (c *retryableClient) isOurs(e ast.Expr) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	obj := c.f.info.Uses[sel.Sel]
	return obj != nil && obj.Pkg() != nil && isOurs(obj.Pkg().Path())
}

// rewrite moves the whole client if it can, and otherwise gives it a policy.
func (c *retryableClient) rewrite() {
	for _, stmt := range c.retries {
		if slices.Contains(c.others, stmt) {
			c.stays("one statement sets how it retries and something else")
			return
		}
	}
	p, err := c.policy()
	if err != nil {
		c.stays2(err.Error())
		return
	}
	if c.movesWhole() {
		c.rewriteWhole(p)
	} else {
		c.plug(p)
	}
}

// movesWhole reports whether only the standard client is needed, whose caller sees the last
// response of a call that failed.
func (c *retryableClient) movesWhole() bool {
	if c.kept || len(c.standard) != 1 || c.handler() != "PassthroughErrorHandler" {
		return false
	}
	stmt, ok := c.f.statement(c.standard[0]).(ast.Stmt)
	if !ok || !c.f.sameList(stmt, c.def) {
		return false
	}
	for name, e := range c.fields {
		_, of, ofHTTP := strings.Cut(name, "HTTPClient.")
		switch {
		case name == "Logger" && c.f.source(e) != "nil", ofHTTP && c.fields["HTTPClient"] != nil:
			return false
		case !ofHTTP && name != "HTTPClient" && name != "Logger" && !slices.Contains(retryFields, name):
			return false
		case ofHTTP && strings.Contains(of, "."):
			return false
		}
		if !c.f.movable(e, stmt.Pos(), stmt.Pos()) && !c.f.contiguous(e, stmt, slices.Concat(c.retries, c.others)) {
			return false
		}
	}
	return true
}

// handler is the name of the ErrorHandler in the library, "" if there is none, or "?".
func (c *retryableClient) handler() string { return c.libraryName("ErrorHandler", "") }

// libraryName is the name of the function of the library that a field is set to.
func (c *retryableClient) libraryName(field, otherwise string) string {
	e := c.fields[field]
	if e == nil {
		return otherwise
	}
	if sel, ok := e.(*ast.SelectorExpr); ok && c.f.mentions(sel, retryablePath) {
		return sel.Sel.Name
	}
	return "?"
}

// rewriteWhole replaces the standard client.
func (c *retryableClient) rewriteWhole(p *policy) {
	f, call := c.f, c.standard[0]
	policy := f.place(call, "policy", p.String(), nil)
	client := gen("§backoffhttp.Client(%s)", policy)
	if base := c.base(); base != "" {
		client = gen("§backoffhttp.WrapClient(%s, %s)", base, policy)
	}
	for _, stmt := range slices.Concat([]ast.Stmt{c.def}, c.retries, c.others) {
		f.removeStmt(stmt)
	}
	f.replace(call.Pos(), call.End(), client)
}

// base is the text of the client whose attempts are retried, or "".
func (c *retryableClient) base() string {
	if e := c.fields["HTTPClient"]; e != nil {
		return c.f.source(e)
	}
	var fields []string
	for name, e := range c.fields {
		if field, ok := strings.CutPrefix(name, "HTTPClient."); ok {
			fields = append(fields, field+": "+c.f.source(e))
		}
	}
	if fields == nil {
		return ""
	}
	slices.Sort(fields)
	return gen("&§http.Client{%s}", strings.Join(fields, ", "))
}

// plug gives the client the policy, and leaves all else as it is.
func (c *retryableClient) plug(p *policy) {
	f, at := c.f, c.def
	if len(c.retries) > 0 {
		at = c.retries[len(c.retries)-1]
	}
	for _, name := range retryFields {
		if e := c.fields[name]; e != nil && !encloses(at, e) && !f.movable(e, at.Pos(), at.Pos()) && !f.contiguous(e, at, c.retries) {
			c.stays("its settings may change before the last of them")
			return
		}
	}
	handler, known := map[string]string{"": "ErrorHandler", "PassthroughErrorHandler": "KeepResponse"}[c.handler()]
	if !known {
		c.stays("ErrorHandler is a function of the program")
		return
	}
	retry := f.fresh("retry", c.def)
	text := fmt.Sprintf("%[1]s := %[2]s(%[3]s)\n%[4]s.CheckRetry, %[4]s.Backoff = %[1]s.CheckRetry, %[1]s.Backoff\n"+
		"%[4]s.ErrorHandler, %[4]s.RetryMax = %[1]s.%[5]s, %[1]s.RetryMax()", retry, gen("§plug.RetryableHTTP"), p, c.v.Name(), handler)
	for _, stmt := range c.retries {
		if stmt != at {
			f.removeStmt(stmt)
		}
	}
	if at == c.def {
		f.insert(at.End(), "\n"+text)
		return
	}
	f.replace(at.Pos(), at.End(), text)
}

// policy is the policy of the client.
func (c *retryableClient) policy() (*policy, error) {
	p := new(policy)
	p.set("Idempotency", "§backoff.Idempotent")
	p.set("MaxAttempts", "%s", c.attempts())
	if err := c.schedule(p); err != nil {
		return nil, err
	}
	switch c.libraryName("CheckRetry", "DefaultRetryPolicy") {
	case "DefaultRetryPolicy":
		return p, nil
	case "?":
		return p, c.classify(p)
	}
	return nil, errors.New("its CheckRetry has no equivalent")
}

// attempts is MaxAttempts.
func (c *retryableClient) attempts() string {
	e := c.fields["RetryMax"]
	if e == nil {
		return "5"
	}
	if n, ok := c.f.number(e); ok {
		return decimal(max(n, 0) + 1)
	}
	return fmt.Sprintf("max(%s, 0) + 1", c.f.source(e))
}

// schedule sets Schedule and Jitter.
func (c *retryableClient) schedule(p *policy) error {
	lowest, a := c.wait("RetryWaitMin", time.Second)
	highest, b := c.wait("RetryWaitMax", 30*time.Second)
	switch kind := c.libraryName("Backoff", "DefaultBackoff"); {
	case kind == "LinearJitterBackoff" && a == b && a > 0:
		p.set("Schedule", "§backoff.Linear{Initial: %s, Step: %s}", lowest, lowest)
	case kind != "DefaultBackoff":
		return errors.New("its Backoff has no equivalent")
	case a == 0 || b == 0:
		p.set("Schedule", "§backoff.Constant(0)")
	case a > 0 && b > 0 && a >= b:
		p.set("Schedule", "§backoff.Constant(%s)", highest)
	case a < 0 || b < 0:
		p.set("Schedule", "§backoff.Exponential{Initial: min(%[1]s, %[2]s), Max: %[2]s}", lowest, highest)
	default:
		p.set("Schedule", "§backoff.Exponential{Initial: %s, Max: %s}", lowest, highest)
	}
	p.set("Jitter", "§backoff.NoJitter")
	return nil
}

// wait is the text and the value of a field, or its default. The value is negative if it is not
// constant.
func (c *retryableClient) wait(name string, otherwise time.Duration) (string, float64) {
	e := c.fields[name]
	if e == nil {
		return duration(otherwise), float64(otherwise)
	}
	n, ok := c.f.number(e)
	if !ok {
		c.note("if %s is 0, it means the default here, and not %s: 0", c.f.source(e), name)
		return c.f.source(e), -1
	}
	return c.f.source(e), n
}

// classify sets Classify to what a CheckRetry says that retries some statuses besides the usual
// ones.
func (c *retryableClient) classify(p *policy) error {
	own := errors.New("its CheckRetry is a function of the program")
	lit, ok := c.fields["CheckRetry"].(*ast.FuncLit)
	if !ok || len(lit.Body.List) < 2 {
		return own
	}
	var conditions []string
	last := len(lit.Body.List) - 1
	for _, stmt := range lit.Body.List[:last] {
		status := c.status(lit, stmt)
		if status == nil {
			return own
		}
		if n, ok := c.f.number(status); !ok || n < 400 {
			return own
		}
		conditions = append(conditions, "status.Code == "+c.f.source(status))
	}
	if c.squeezed(lit.Body.List[last]) != "return retryablehttp.DefaultRetryPolicy("+strings.Join(parameters(lit), ",")+")" {
		return own
	}
	condition := strings.Join(conditions, " || ")
	if len(conditions) > 1 {
		condition = "(" + condition + ")"
	}
	p.set("Classify", "func(err error) §backoff.Class {\nif status, ok := §errors.AsType[*§backoffhttp.StatusError](err); ok && %s {\n"+
		"return §backoff.ClassRetryable\n}\nreturn §backoff.ClassUnknown // as usual\n}", condition)
	return nil
}

// status is S in: if err == nil && resp.StatusCode == S { return true, nil }.
func (c *retryableClient) status(lit *ast.FuncLit, stmt ast.Stmt) ast.Expr {
	names := parameters(lit)
	cond, ok := stmt.(*ast.IfStmt)
	if !ok || len(names) != 3 || cond.Init != nil || cond.Else != nil || c.squeezed(cond.Body) != "{return true,nil}" {
		return nil
	}
	both, ok := cond.Cond.(*ast.BinaryExpr)
	if !ok || both.Op != token.LAND || c.squeezed(both.X) != names[2]+"==nil" {
		return nil
	}
	equal, ok := both.Y.(*ast.BinaryExpr)
	if !ok || equal.Op != token.EQL || c.squeezed(equal.X) != names[1]+".StatusCode" {
		return nil
	}
	return equal.Y
}

// squeezed is the text of a node without the space that only formats it.
func (c *retryableClient) squeezed(n ast.Node) string {
	text := strings.Join(strings.Fields(c.f.source(n)), " ")
	for _, sign := range []string{"==", "{", "}", ","} {
		text = strings.ReplaceAll(strings.ReplaceAll(text, " "+sign, sign), sign+" ", sign)
	}
	return text
}

// parameters are the names of the parameters of a function.
func parameters(lit *ast.FuncLit) []string {
	var names []string
	for _, field := range lit.Type.Params.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}
