package loop

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/gobackoff/backoff/cmd/backoffvet/internal/remote"
)

// A Signal tells a loop to end: a context, a channel that is closed, or a flag.
type Signal struct {
	Var  *types.Var // a context, a request that has one, or the field of one; else nil
	Expr string     // how it is written
	Done string     // what is received from at its end, as it is written, or "" for a flag

	OfType bool // other methods of the type wait for it, and the loop does not mention it
}

// contextSignal returns the signal of a context, unless it never ends.
func (l *Loop) contextSignal(v *types.Var, expr string) *Signal {
	if l.prog.isEndless(v, 4) {
		return nil
	}
	return &Signal{Var: v, Expr: expr, Done: expr + ".Done()"}
}

// Signal returns what the loop should obey, or nil: a context that it hands to its work, else what
// it asks itself whether to go on, else, if nothing bounds it, what other methods of its type wait
// for.
func (l *Loop) Signal(pkg *types.Package) *Signal {
	ctx, outlives := l.context(pkg)
	switch {
	case outlives || l.ends():
		return nil
	case ctx != nil && l.HandsOver(ctx.Var):
		return ctx
	}
	if s := l.asked(); s != nil {
		return s
	}
	if s := l.handed(); s != nil {
		return s
	}
	if l.Bounded() {
		return nil
	}
	s := l.ofType()
	if s != nil {
		s.OfType = true
	}
	return s
}

// Asks reports whether the loop itself looks at a signal in each round, and may leave.
func (l *Loop) Asks(s *Signal) bool {
	asked := l.asked()
	return asked != nil && asked.Expr == s.Expr
}

// asked returns the signal that the loop looks at, and that makes it leave.
func (l *Loop) asked() (found *Signal) {
	note := func(s *Signal) {
		if found == nil {
			found = s
		}
	}
	if f, ok := l.Stmt.(*ast.ForStmt); ok && f.Cond != nil {
		note(l.flag(f.Cond))
	}
	Inspect(l.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CommClause:
			if leaves(l.info, n.Body, token.BREAK) { // which leaves only the select, but is meant otherwise
				note(l.received(n.Comm))
			}
		case *ast.IfStmt:
			if leaves(l.info, n.Body.List, token.BREAK) {
				note(l.flag(n.Cond))
				note(l.assigned(n.Init))
			}
		}
		return true
	})
	return found
}

// assigned returns the signal of err := ctx.Err(), or nil.
func (l *Loop) assigned(s ast.Stmt) *Signal {
	if assign, ok := s.(*ast.AssignStmt); ok && len(assign.Rhs) == 1 {
		return l.flag(assign.Rhs[0])
	}
	return nil
}

// received returns the signal that a case receives, or nil.
func (l *Loop) received(s ast.Stmt) *Signal {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return nil
	}
	receive, ok := e.X.(*ast.UnaryExpr)
	if !ok {
		return nil
	}
	return l.channel(receive.X)
}

// channel returns the signal of x.Done() of a context, or of a channel that has nothing to say but
// that it is closed, as its type or its name tells.
func (l *Loop) channel(e ast.Expr) *Signal {
	if l.makesInside(e) {
		return nil
	}
	text := types.ExprString(e)
	if call, ok := ast.Unparen(e).(*ast.CallExpr); ok {
		s, ok := call.Fun.(*ast.SelectorExpr)
		if ok && s.Sel.Name == "Done" && remote.IsContext(l.info.TypeOf(s.X)) {
			return l.contextSignal(fieldOrVar(l.info, s.X), types.ExprString(s.X))
		}
		if stopping.MatchString(Name(call)) && len(call.Args) == 0 {
			return &Signal{Expr: text, Done: text}
		}
		return nil
	}
	return l.ofField(fieldOrVar(l.info, e), text, true)
}

// ofField returns the signal of a variable that is a context or a stop channel.
func (l *Loop) ofField(v *types.Var, text string, asked bool) *Signal {
	switch {
	case v != nil && remote.IsContext(v.Type()):
		return l.contextSignal(v, text)
	case v != nil && l.prog.isStopChannel(v) && l.mayStop(v, asked):
		return &Signal{Expr: text, Done: text}
	}
	return nil
}

// makesInside reports whether an expression has a variable of the loop itself.
func (l *Loop) makesInside(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		if v, isVar := l.info.ObjectOf(name).(*types.Var); ok && isVar && !v.IsField() {
			found = found || l.Stmt.Pos() <= v.Pos() && v.Pos() < l.Stmt.End()
		}
		return !found
	})
	return found
}

// leaves reports whether the last of some statements leaves what is around them: by a return, a
// goto, a break with a label, a call that does not return, or a branch of the kind that is given.
func leaves(info *types.Info, list []ast.Stmt, branch token.Token) bool {
	if len(list) == 0 {
		return false
	}
	switch s := list[len(list)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok == branch || s.Tok == token.GOTO || s.Tok == token.BREAK && s.Label != nil
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && !mayReturn(info, call)
	}
	return false
}

// isStopChannel reports whether a variable is a stop channel, or a pointer to one: its name says
// so, or something closes it that ends its object.
func (p *program) isStopChannel(v *types.Var) bool {
	t := v.Type().Underlying()
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem().Underlying()
	}
	c, ok := t.(*types.Chan)
	return ok && c.Elem().String() != "time.Time" &&
		(stopping.MatchString(v.Name()) || c.Elem().String() == "struct{}" && slices.ContainsFunc(p.closes[v], p.atEnd))
}

var stopping = regexp.MustCompile(`(?i)stop|done|quit|clos|exit|shut|cancel|term|kill|dead|^end$|(?-i)End$`)

// flag returns the signal that a condition asks for: a flag, a method that tells it, or the error
// of a context.
func (l *Loop) flag(cond ast.Expr) (found *Signal) {
	ast.Inspect(cond, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok || found != nil || l.makesInside(e) {
			return found == nil
		}
		if call, ok := e.(*ast.CallExpr); ok {
			found = l.asks(call)
			return false
		}
		if v := fieldOrVar(l.info, e); v != nil && v.IsField() && types.Identical(v.Type(), types.Typ[types.Bool]) && lasting.MatchString(v.Name()) {
			found = &Signal{Expr: types.ExprString(e)}
		}
		return found == nil
	})
	return found
}

var lasting = regexp.MustCompile(`(?i)stop|quit|clos|exit|shut|cancel|terminat|destroy|running|alive`)

// receiver returns the name of the receiver of the method around the loop, or nil.
func (l *Loop) receiver() *ast.Ident {
	f, ok := l.Func.Outer.(*ast.FuncDecl)
	if !ok || f.Recv == nil || len(f.Recv.List[0].Names) == 0 {
		return nil
	}
	return f.Recv.List[0].Names[0]
}

// asks is for the calls of a condition: ctx.Err(), x.closed.Load(), x.isClosed(), and
// atomic.LoadInt32(&x.closed).
func (l *Loop) asks(call *ast.CallExpr) *Signal {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	text := types.ExprString(call)
	loaded := atomicOf(l.info, call, "Load")
	switch {
	case len(call.Args) > 0 && (loaded == nil || s.Sel.Name == "Load"):
		return nil
	case loaded != nil && lasting.MatchString(types.ExprString(loaded)):
		return &Signal{Expr: text}
	case s.Sel.Name == "Err" && remote.IsContext(l.info.TypeOf(s.X)):
		return l.contextSignal(fieldOrVar(l.info, s.X), types.ExprString(s.X))
	case types.Identical(typeOf(l.info, call), types.Typ[types.Bool]) && lasting.MatchString(s.Sel.Name):
		return &Signal{Expr: text}
	}
	return nil
}

// atomicOf returns what a call of sync/atomic loads or stores, as its name says, or nil: x for
// x.Load() and for atomic.LoadInt32(&x).
func atomicOf(info *types.Info, call *ast.CallExpr, name string) ast.Expr {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !strings.HasPrefix(s.Sel.Name, name) {
		return nil
	}
	if s.Sel.Name == name {
		return s.X
	}
	if f := typeutil.Callee(info, call); f == nil || f.Pkg() == nil || f.Pkg().Path() != "sync/atomic" {
		return nil
	}
	address, ok := call.Args[0].(*ast.UnaryExpr)
	if !ok {
		return nil
	}
	return address.X
}

// handed returns the context in a field, or the stop channel, that the loop hands to its work.
func (l *Loop) handed() (found *Signal) {
	for _, a := range l.Calls {
		for _, arg := range a.Call.Args {
			v := fieldOrVar(l.info, arg)
			if found == nil && v != nil && (v.IsField() || !remote.IsContext(v.Type())) {
				found = l.ofField(v, types.ExprString(arg), true)
			}
		}
	}
	return found
}

// ofType returns the signal in a field of the receiver that other code of the package waits for.
func (l *Loop) ofType() *Signal {
	recv := l.receiver()
	if recv == nil || !l.waitsForFailures() {
		return nil
	}
	t := typeOf(l.info, recv)
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	for field := range s.Fields() {
		text := recv.Name + "." + field.Name()
		if l.prog.isEnded(field) {
			return &Signal{Expr: text}
		}
		if !l.prog.listens[field] || len(l.prog.closes[field]) == 0 && !remote.IsContext(field.Type()) {
			continue
		}
		if s := l.ofField(field, text, false); s != nil {
			return s
		}
	}
	return nil
}

// waitsForFailures reports whether only a failure makes the loop wait.
func (l *Loop) waitsForFailures() bool {
	return l.Kind == Retry || l.Kind == Worker && slices.ContainsFunc(l.Attempts, func(a *Attempt) bool {
		for end := range a.Ends {
			if end.Way == Again && end.Outcome == Succeeded && end.Wait != nil {
				return false
			}
		}
		return true
	})
}

// ends reports whether the function around the loop is what ends its object, or runs at its end.
func (l *Loop) ends() bool {
	f, ok := l.Func.Outer.(*ast.FuncDecl)
	return ok && ending.MatchString(f.Name.Name)
}

var ending = regexp.MustCompile(`(?i)^(close|stop|shutdown|quit|kill|terminate|drain|teardown|cleanup|destroy)|(Close|Stop|Shutdown)$`)
