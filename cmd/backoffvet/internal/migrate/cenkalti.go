package migrate

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/loop"
)

// A cenkalti is what a program has of one version of cenkalti/backoff.
type cenkalti struct {
	p       *program
	path    string
	options bool // v5 and later: the context is an argument, and the settings are options
	calls   []*retryCall
	marks   []mark
}

// A retryCall is a call of Retry or a function like it.
type retryCall struct {
	*site
	call     *ast.CallExpr
	op       operation
	ctx      ast.Expr // nil if there is none
	notify   ast.Expr // nil if there is none
	value    bool     // the operation returns a value, too
	settings settings
	literal  string // of the policy
}

// old is the path of the library, without its version.
const old = "github.com/cenkalti/backoff/"

func migrateCenkalti(p *program) {
	for _, version := range []string{"v4", "v5", "v6", "v7"} {
		c := &cenkalti{p: p, path: old + version, options: version != "v4"}
		for _, f := range p.files {
			if f.imported(c.path) != nil {
				c.find(f)
			}
		}
		c.decide()
		for _, call := range c.calls {
			if call.reason == "" {
				c.rewrite(call)
			}
		}
		c.rewriteMarks()
	}
}

// find finds the calls and the marks of a file.
func (c *cenkalti) find(f *file) {
	each(f.syntax, func(call *ast.CallExpr) {
		switch name := c.name(f, call); name {
		case "Retry", "RetryWithData", "RetryNotify", "RetryNotifyWithData", "RetryNotifyWithTimer", "RetryNotifyWithTimerAndData":
			c.calls = append(c.calls, c.read(f, call, name))
		case "NewTicker", "NewTickerWithTimer":
			c.p.site(f, call).stays("a ticker becomes a range loop over Run.Attempts")
		case "Permanent", "RetryAfter":
			c.marks = append(c.marks, mark{f: f, node: call, name: name, args: call.Args})
		default:
			if strings.HasSuffix(name, ").NextBackOff") {
				c.p.site(f, call).stays("a loop that waits by itself becomes one with Run.Retry")
			}
		}
	})
	each(f.syntax, func(lit *ast.UnaryExpr) { c.findLiteral(f, lit) })
}

// name is the name of a function of the library that is called, or "".
func (c *cenkalti) name(f *file, call *ast.CallExpr) string {
	full := f.callee(call)
	if !strings.Contains(full, c.path+".") {
		return ""
	}
	return strings.TrimPrefix(full, c.path+".")
}

// read reads a call with all of its settings.
func (c *cenkalti) read(f *file, call *ast.CallExpr, name string) *retryCall {
	r := &retryCall{site: c.p.site(f, call), call: call, settings: settings{fields: map[string]ast.Expr{}}}
	operation := 0
	if f.function(call) == nil {
		r.stays("it is outside of a function")
		return r
	}
	if c.options {
		r.ctx, r.value, operation = call.Args[0], true, 1
		r.stays(c.readOptions(f, r, call))
	} else {
		r.value = strings.HasSuffix(name, "Data")
		r.stays(c.readBackOff(f, call.Args[1], &r.settings))
		r.ctx = r.settings.ctx
		if len(call.Args) > 2 && f.source(call.Args[2]) != "nil" {
			r.notify = call.Args[2]
		}
		if len(call.Args) > 3 && f.source(call.Args[3]) != "nil" {
			r.stays("it has a timer of its own: use testing/synctest")
		}
	}
	var reason string
	r.op, reason = f.operation(call.Args[operation])
	r.stays(reason)
	return r
}

// readOptions reads the options of v5 to v7.
func (c *cenkalti) readOptions(f *file, r *retryCall, call *ast.CallExpr) string {
	if call.Ellipsis.IsValid() {
		return "its options are made elsewhere"
	}
	for _, arg := range call.Args[2:] {
		option, _ := ast.Unparen(arg).(*ast.CallExpr)
		if option == nil {
			return "its options are made elsewhere"
		}
		switch c.name(f, option) {
		case "WithBackOff":
			if reason := c.readBackOff(f, option.Args[0], &r.settings); reason != "" {
				return reason
			}
		case "WithMaxTries":
			r.settings.tries = option.Args[0]
		case "WithMaxElapsedTime":
			r.settings.elapsed = option.Args[0]
		case "WithNotify":
			r.notify = option.Args[0]
		default:
			return "its options are made elsewhere"
		}
	}
	return ""
}

// looks are the names by which a program looks at the errors of the library, which a policy does
// not return.
var looks = []string{"RetryError", "AsRetryError", "ErrPermanent", "ErrExhausted", "ErrMaxElapsedTime"}

// decide says which calls stay because of others.
func (c *cenkalti) decide() {
	for _, f := range c.p.files {
		for _, sel := range f.selections(c.path) {
			if name := sel.Sel.Name; slices.Contains(looks, name) {
				for _, call := range c.calls {
					call.stays("the program looks at " + name + ", which has no equivalent")
				}
			}
		}
	}
	for _, call := range c.calls {
		if call.reason == "" {
			c.plan(call)
		}
	}
}

// selections are the uses of a package in a file.
func (f *file) selections(path string) (all []*ast.SelectorExpr) {
	each(f.syntax, func(sel *ast.SelectorExpr) {
		if id, ok := sel.X.(*ast.Ident); ok && f.mentions(id, path) {
			all = append(all, sel)
		}
	})
	return all
}

// rewrite rewrites a call.
func (c *cenkalti) rewrite(r *retryCall) {
	f, call := r.f, r.call
	policy := r.placed()
	first, last := call.Args[0], call.Args[0]
	if c.options {
		last = call.Args[1]
		f.insert(first.End(), ", "+policy)
	} else {
		ctx := gen("§context.Background()")
		if r.ctx != nil {
			ctx = f.source(r.ctx)
		}
		if r.value {
			ctx += ", " + policy
		}
		f.insert(first.Pos(), ctx+", ")
	}
	f.withContext(r.op, r.ctx)
	f.replace(last.End(), call.Rparen, "")
	if r.value {
		f.replace(call.Fun.Pos(), call.Fun.End(), gen("§backoff.DoValue"))
	} else {
		f.replace(call.Fun.Pos(), call.Fun.End(), policy+".Do")
	}
	c.rewriteComparisons(r)
	c.noteCallers(r)
}

// rewriteComparisons has code that compares the error of the call with == or by its type see the
// operation's own.
func (c *cenkalti) rewriteComparisons(r *retryCall) {
	f := r.f
	assign, ok := f.parents[r.call].(*ast.AssignStmt)
	if !ok {
		return
	}
	v := f.local(assign.Lhs[len(assign.Lhs)-1])
	if v == nil {
		return
	}
	for _, id := range f.usesOf(v) {
		if id.Pos() < assign.End() || f.assigned(v, assign.End(), id.Pos()) {
			continue
		}
		f.rewriteComparison(id)
	}
}

func (f *file) rewriteComparison(id *ast.Ident) {
	switch parent := f.parents[id].(type) {
	case *ast.BinaryExpr:
		other := parent.X
		if other == id {
			other = parent.Y
		}
		text := f.source(other)
		switch {
		case parent.Op != token.EQL && parent.Op != token.NEQ || text == "nil":
		case text == "context.Canceled" || text == "context.DeadlineExceeded":
			not := strings.Repeat("!", strings.Count(parent.Op.String(), "!"))
			f.replace(parent.Pos(), parent.End(), gen("%s§errors.Is(%s, %s)", not, id.Name, text))
		default:
			f.replace(id.Pos(), id.End(), gen("§backoff.Cause(%s)", id.Name))
		}
	case *ast.TypeAssertExpr:
		f.replace(id.Pos(), id.End(), gen("§backoff.Cause(%s)", id.Name))
	}
}

// noteCallers notes where the callers of the function around a call compare its error with ==.
func (c *cenkalti) noteCallers(r *retryCall) {
	decl := r.f.function(r.call)
	if decl == nil {
		return
	}
	fn, _ := r.f.info.Defs[decl.Name].(*types.Func)
	for _, f := range c.p.files {
		each(f.syntax, func(e *ast.BinaryExpr) {
			if (e.Op == token.EQL || e.Op == token.NEQ) && f.source(e.Y) != "nil" && f.isResultOf(e.X, fn) {
				r.note("a caller compares this error with %s: let it use errors.Is (%s)", e.Op, f.fset.Position(e.Pos()))
			}
		})
	}
}

// isResultOf reports whether an expression is the error that a function returned.
func (f *file) isResultOf(e ast.Expr, fn *types.Func) bool {
	call, _ := e.(*ast.CallExpr)
	if v := f.local(e); v != nil && loop.IsError(v.Type()) {
		for id, obj := range f.info.Defs {
			if assign, ok := f.parents[id].(*ast.AssignStmt); ok && obj == v {
				call, _ = assign.Rhs[len(assign.Rhs)-1].(*ast.CallExpr)
			}
		}
	}
	return call != nil && fn != nil && f.callee(call) == fn.FullName()
}
