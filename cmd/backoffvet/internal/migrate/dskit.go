package migrate

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"time"
)

const dskitPath = "github.com/grafana/dskit/backoff"

// A dskitLoop is a variable of dskit's and the loop that it controls.
type dskitLoop struct {
	*site
	v      *types.Var
	make   *ast.CallExpr // of New
	loop   *ast.ForStmt
	config map[string]ast.Expr // the fields of a literal; nil if the configuration is made elsewhere
	whole  ast.Expr            // the configuration that is made elsewhere
	ctx    string              // the context variable that the body sees, or ""
	rounds bool                // a path goes on at once, after Reset
}

// migrateDskit migrates the loops of dskit's backoff.
func migrateDskit(p *program) {
	for _, f := range p.files {
		if f.imported(dskitPath) == nil {
			continue
		}
		each(f.syntax, func(call *ast.CallExpr) {
			if f.callee(call) == dskitPath+".New" {
				l := &dskitLoop{site: p.site(f, call), make: call}
				l.read()
				l.rewrite()
			}
		})
	}
}

// read looks at all uses of the variable.
func (l *dskitLoop) read() {
	f := l.f
	if l.v = f.madeIn(l.make); l.v == nil {
		l.stays("it is not made in a variable of the function")
		return
	}
	l.stays2(l.readConfig(l.make.Args[1]))
	for _, id := range f.usesOf(l.v) {
		l.stays2(l.readUse(id))
	}
	if l.loop == nil {
		l.stays("no loop asks only for Ongoing")
	}
	if l.reason != "" {
		return
	}
	l.stays2(l.paths())
	l.ctx = l.contextName()
}

// readConfig reads a literal, or a configuration that a field or a variable holds.
func (l *dskitLoop) readConfig(e ast.Expr) string {
	e = ast.Unparen(e)
	if v := l.f.local(e); v != nil {
		if _, value := l.f.definition(v); value != nil && len(l.f.usesOf(v)) == 1 {
			if _, ok := value.(*ast.CompositeLit); ok {
				e = value
			}
		}
	}
	lit, ok := e.(*ast.CompositeLit)
	if !ok {
		l.whole = e
		if !l.f.movable(e, l.make.Pos(), l.make.Pos()) {
			return "its configuration is the result of a call"
		}
		return ""
	}
	l.config = map[string]ast.Expr{}
	for _, element := range lit.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok || !l.f.movable(field.Value, l.make.Pos(), l.make.Pos()) && !encloses(l.make, field) {
			return "its configuration may change"
		}
		l.config[l.f.source(field.Key)] = field.Value
	}
	return ""
}

// readUse reads a use of the variable. It finds the loop.
func (l *dskitLoop) readUse(id *ast.Ident) string {
	f := l.f
	sel, _ := f.parents[id].(*ast.SelectorExpr)
	call, _ := f.parents[sel].(*ast.CallExpr)
	if sel == nil || call == nil {
		return "its backoff has other uses, too"
	}
	switch sel.Sel.Name {
	case "Ongoing":
		loop, ok := f.parents[call].(*ast.ForStmt)
		if !ok || loop.Init != nil || loop.Post != nil && !l.isWait(loop.Post) || l.loop != nil {
			return "Ongoing is not the only condition of one loop"
		}
		l.loop = loop
	case "Wait", "Reset":
		if _, ok := f.parents[call].(*ast.ExprStmt); !ok {
			return sel.Sel.Name + " is not a statement"
		}
	case "Err", "ErrCause", "NumRetries":
	default:
		return "it calls " + sel.Sel.Name + ", for which a loop of your own has Run.Retry"
	}
	return ""
}

// isWait reports whether a statement is Wait.
func (l *dskitLoop) isWait(s ast.Stmt) bool {
	stmt, ok := s.(*ast.ExprStmt)
	return ok && l.f.source(stmt) == l.v.Name()+".Wait()"
}

// contextName is the name of the variable that New gets, if the body of the loop uses it.
func (l *dskitLoop) contextName() string {
	v := l.f.local(l.make.Args[0])
	if v == nil || l.f.assigned(v, l.loop.Pos(), l.loop.End()) {
		return ""
	}
	for _, id := range l.f.usesOf(v) {
		if encloses(l.loop.Body, id) {
			return v.Name()
		}
	}
	return ""
}

// policy is the policy of the loop.
func (l *dskitLoop) policy() (*policy, error) {
	p := new(policy)
	if l.whole != nil {
		text := l.f.source(l.whole)
		l.note("if %[1]s.MinBackoff is 0, or above MaxBackoff, the waits differ here", text)
		p.set("MaxAttempts", "§cmp.Or(%s.MaxRetries, -1)", text)
		p.set("Schedule", "§backoff.Exponential{Initial: min(2*%[1]s.MinBackoff, %[1]s.MaxBackoff), Max: %[1]s.MaxBackoff}", text)
		p.set("Jitter", "§backoff.EqualJitter")
		return p, nil
	}
	p.set("MaxAttempts", "%s", l.attempts())
	return p, l.schedule(p)
}

// attempts is MaxAttempts, of which 0 means no limit there.
func (l *dskitLoop) attempts() string {
	e := l.config["MaxRetries"]
	if e == nil {
		return "-1"
	}
	if n, ok := l.f.number(e); !ok {
		return gen("§cmp.Or(%s, -1)", l.f.source(e))
	} else if n == 0 {
		return "-1"
	}
	return l.f.source(e)
}

// schedule sets Schedule and Jitter: a wait there is between the minimum and twice as long, and
// then between the double of both.
func (l *dskitLoop) schedule(p *policy) error {
	lowest, highest := l.config["MinBackoff"], l.config["MaxBackoff"]
	if lowest == nil || highest == nil {
		return fmt.Errorf("its configuration has no MinBackoff or no MaxBackoff")
	}
	a, isConst := l.f.number(lowest)
	b, isConst2 := l.f.number(highest)
	switch {
	case isConst && a <= 0:
		return fmt.Errorf("its MinBackoff is %s", l.f.source(lowest))
	case isConst && isConst2 && a >= b:
		p.set("Schedule", "§backoff.Constant(%s)", l.f.source(lowest))
		p.set("Jitter", "§backoff.NoJitter")
		return nil
	case isConst && isConst2 && 2*a > b:
		return fmt.Errorf("its MaxBackoff is less than twice its MinBackoff")
	case !isConst || !isConst2:
		l.note("if %s is 0, or above %s, the waits differ here", l.f.source(lowest), l.f.source(highest))
	}
	initial := l.f.product(2, lowest)
	if isConst {
		initial = duration(2 * time.Duration(a))
	}
	if !isConst || !isConst2 {
		initial = fmt.Sprintf("min(%s, %s)", initial, l.f.source(highest)) // more than Max is invalid
	}
	p.set("Schedule", "§backoff.Exponential{Initial: %s, Max: %s}", initial, l.f.source(highest))
	p.set("Jitter", "§backoff.EqualJitter")
	return nil
}

// rewrite rewrites the loop, unless it stays.
func (l *dskitLoop) rewrite() {
	if l.reason != "" {
		return
	}
	p, err := l.policy()
	if err != nil {
		l.stays2(err.Error())
		return
	}
	f := l.f
	if v := f.local(l.make.Args[1]); v != nil && l.config != nil {
		stmt, _ := f.definition(v)
		f.removeStmt(stmt) // nothing else uses the configuration
	}
	f.replace(l.make.Pos(), l.make.End(), gen("%s.Start(%s)", p, f.source(l.make.Args[0])))
	ctx := l.ctx
	if ctx == "" && l.rounds {
		ctx = f.fresh("ctx", l.loop)
	}
	yields := ""
	if ctx != "" {
		yields = ctx + " := "
	}
	f.replace(l.loop.For, l.loop.Body.Lbrace, fmt.Sprintf("for %srange %s.Attempts() ", yields, l.v.Name()))
	if l.rounds {
		f.insert(l.loop.Body.Lbrace+1, fmt.Sprintf("\nfor %s.Err() == nil {", ctx))
		f.insert(l.loop.Body.Rbrace, "}\n")
	}
	for _, id := range f.usesOf(l.v) {
		l.rewriteUse(id)
	}
}

// rewriteUse rewrites a use of the variable.
func (l *dskitLoop) rewriteUse(id *ast.Ident) {
	f := l.f
	sel := f.parents[id].(*ast.SelectorExpr)
	call := f.parents[sel].(*ast.CallExpr)
	stmt, _ := f.parents[call].(ast.Stmt)
	switch sel.Sel.Name {
	case "Wait":
		if stmt != l.loop.Post {
			l.rewriteWait(stmt)
		}
	case "Reset":
		if encloses(l.loop, sel) {
			f.replace(sel.Sel.Pos(), sel.Sel.End(), "Progress")
		} else {
			f.removeStmt(stmt) // before the loop it does nothing
		}
	case "ErrCause":
		f.replace(sel.Sel.Pos(), sel.Sel.End(), "Err")
	case "NumRetries":
		f.replace(call.Pos(), call.End(), "("+l.v.Name()+".Attempt() - 1)")
	}
}

// rewriteWait makes Wait the report of a failure, or nothing if no error says what failed.
func (l *dskitLoop) rewriteWait(stmt ast.Stmt) {
	f := l.f
	text := ""
	if name := l.failure(stmt.Pos()); name != "" {
		text = gen("%s.Fail(§backoff.OfClass(%s, §backoff.ClassRetryable))", l.v.Name(), name)
	}
	next := l.after(stmt)
	switch {
	case l.rounds && next != nil:
		f.replace(next.Pos(), next.End(), "break")
	case l.rounds:
		text += "\nbreak"
	}
	if text == "" {
		f.removeStmt(stmt)
		return
	}
	f.replace(stmt.Pos(), stmt.End(), text)
}

// after is the continue that follows a statement, or nil.
func (l *dskitLoop) after(stmt ast.Stmt) ast.Stmt {
	list := listOf(l.f.parents[stmt])
	for i, s := range list {
		if s == stmt && i+1 < len(list) {
			return list[i+1]
		}
	}
	return nil
}

// failure is the name of the error that the body of the loop set last before a position, if it
// means the same there, or "".
func (l *dskitLoop) failure(at token.Pos) string {
	name, last := "", token.NoPos
	each(l.loop.Body, func(assign *ast.AssignStmt) {
		if assign.Pos() >= at || assign.Pos() < last {
			return
		}
		for _, e := range assign.Lhs {
			v := l.f.local(e)
			if v == nil || v.Type().String() != "error" || assign.Tok == token.DEFINE && !l.f.visible(v, at) {
				continue
			}
			if l.f.visible(v, at) {
				name, last = v.Name(), assign.Pos()
			}
		}
	})
	return name
}

// visible reports whether a variable has its name at a position.
func (f *file) visible(v *types.Var, at token.Pos) bool {
	_, obj := f.scope(at).LookupParent(v.Name(), at)
	return obj == v
}
