package loop

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/go/types/typeutil"
)

// Wait is what makes a round wait.
type Wait struct {
	Node     ast.Node        // the call, or the receive from a timer
	Duration ast.Expr        // how long it waits, or nil if that is not said there
	Select   *ast.SelectStmt // the select whose case the receive is, or nil
	Hidden   bool            // a call of a function that waits, as its name says

	inner *Wait // that of the function of the package which is called, or nil
}

// Deaf reports whether nothing but the end of its time ends a wait, as far as can be seen.
func (w *Wait) Deaf() bool {
	return !w.Hidden && (w.Select == nil || len(w.Select.Body.List) == 1)
}

// Constant returns the value of an integer, if it is a constant, a variable that is set to one at
// first, which a setting may change, or what the only caller of the function gives.
func (l *Loop) Constant(e ast.Expr) (time.Duration, bool) {
	if v := VarOf(l.info, e); v != nil {
		if set := l.Assigned(v); len(set) > 0 {
			n, ok := constantOf(l.info, set[0])
			return n, ok && (len(set) == 1 || n > 0 && !l.Contains(set[0]))
		}
		if given := l.prog.given(v); len(given) == 1 {
			return constantOf(l.info, given[0])
		}
	}
	return constantOf(l.info, e)
}

func constantOf(info *types.Info, e ast.Expr) (time.Duration, bool) {
	v := info.Types[e].Value
	if v == nil {
		return 0, false
	}
	n, exact := constant.Int64Val(constant.ToInt(v))
	return time.Duration(n), exact
}

func waitsIn(info *types.Info, stmt ast.Node, sleepers map[types.Object]*Wait) []*Wait {
	var waits []*Wait
	var selects []*ast.SelectStmt
	Inspect(stmt, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			return !stops(n.Cond)
		case *ast.SelectStmt:
			selects = append(selects, n)
		case *ast.UnaryExpr:
			if n.Op == token.ARROW && isTimer(info, n.X) {
				waits = append(waits, received(info, n, selects))
			}
		case *ast.CallExpr:
			if w := called(info, n, sleepers); w != nil {
				waits = append(waits, w)
			}
		}
		return true
	})
	return waits
}

// stops recognizes !timer.Stop(), under which a receive drains the timer and does not wait.
func stops(cond ast.Expr) bool {
	not, ok := ast.Unparen(cond).(*ast.UnaryExpr)
	if !ok {
		return false
	}
	call, ok := ast.Unparen(not.X).(*ast.CallExpr)
	return ok && Name(call) == "Stop"
}

func received(info *types.Info, n *ast.UnaryExpr, selects []*ast.SelectStmt) *Wait {
	w := &Wait{Node: n, Duration: timerDuration(info, n.X)}
	for _, s := range selects {
		if isCase(n, s) {
			w.Select = s
		}
	}
	return w
}

func isCase(n ast.Node, s *ast.SelectStmt) bool {
	for _, clause := range s.Body.List {
		if comm, ok := clause.(*ast.CommClause); ok && comm.Comm != nil && within(n, comm.Comm) {
			return true
		}
	}
	return false
}

// isTimer recognizes the channels of time.After and of a timer. That of a ticker sets the pace.
func isTimer(info *types.Info, e ast.Expr) bool {
	c, ok := types.Unalias(typeOf(info, e)).Underlying().(*types.Chan)
	if !ok || c.Elem().String() != "time.Time" {
		return false
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		return Name(e) == "After" || Name(e) == "C" || Name(e) == "Chan"
	case *ast.SelectorExpr:
		return !strings.HasSuffix(typeOf(info, e.X).String(), "Ticker")
	}
	return false
}

func typeOf(info *types.Info, e ast.Expr) types.Type {
	if t := info.TypeOf(e); t != nil {
		return t
	}
	return types.Typ[types.Invalid]
}

// onlyWaits reports whether a function waits once, and calls nothing that may fail or panic.
func onlyWaits(info *types.Info, f *ast.FuncDecl) bool {
	only := true
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt, *ast.RangeStmt, *ast.GoStmt, *ast.SendStmt, *ast.FuncLit:
			only = false
		case *ast.CallExpr:
			only = only && !mayFail(info, n) && Name(n) != "panic"
		}
		return only
	})
	return only
}

// isAtEnd reports whether a sleep is the last statement of a function.
func isAtEnd(w *Wait, body *ast.BlockStmt) bool {
	e, ok := body.List[len(body.List)-1].(*ast.ExprStmt)
	return ok && !w.Hidden && e.X == w.Node
}

func isSleep(info *types.Info, call *ast.CallExpr) bool {
	return Name(call) == "Sleep" && len(call.Args) == 1 && IsDuration(info.TypeOf(call.Args[0]))
}

// timerDuration returns d of time.After(d).
func timerDuration(info *types.Info, e ast.Expr) ast.Expr {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok || len(call.Args) != 1 || !IsDuration(info.TypeOf(call.Args[0])) {
		return nil
	}
	return call.Args[0]
}

// IsDuration reports whether a type is time.Duration.
func IsDuration(t types.Type) bool { return t != nil && t.String() == "time.Duration" }

// called recognizes time.Sleep, a Sleep of a clock, functions of the package that wait, and calls
// whose name says so.
func called(info *types.Info, call *ast.CallExpr, sleepers map[types.Object]*Wait) *Wait {
	if isSleep(info, call) {
		return &Wait{Node: call, Duration: call.Args[0]}
	}
	inner := sleepers[typeutil.Callee(info, call)]
	if (inner == nil || !inner.Deaf() && !saysWhether(info.TypeOf(call))) && !waitsByName(info, call) {
		return nil
	}
	w := &Wait{Node: call, Hidden: inner == nil && !sleepsElsewhere(info, call) || inner != nil && !inner.Deaf(), inner: inner}
	w.Duration = durationOf(info, call, inner)
	if inner == nil && w.Duration == nil && events.MatchString(Name(call)) {
		return nil
	}
	return w
}

// durationOf returns the argument of a call that is a duration, or the constant or the setting with
// which the function of the package sleeps that it calls.
func durationOf(info *types.Info, call *ast.CallExpr, inner *Wait) (d ast.Expr) {
	for _, arg := range call.Args {
		if IsDuration(info.TypeOf(arg)) {
			d = arg
		}
	}
	if inner != nil && d == nil && inner.Duration != nil && (info.Types[inner.Duration].Value != nil || isSetting(info, inner.Duration)) {
		return inner.Duration
	}
	return d
}

// isSetting reports whether a function in a field computes a duration.
func isSetting(info *types.Info, e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	v, ok := typeutil.Callee(info, call).(*types.Var)
	return ok && v.IsField()
}

// sleepsElsewhere recognizes a function of another package that sleeps, as its name says, and that
// nothing can tell to end: it gets nothing but numbers, and returns nothing. A variable of the
// function may hold what hears the context.
func sleepsElsewhere(info *types.Info, call *ast.CallExpr) bool {
	f := typeutil.Callee(info, call)
	if f == nil || f.Pkg() == nil || !sleeping.MatchString(f.Name()) || f.Parent() != nil && f.Parent() != f.Pkg().Scope() {
		return false
	}
	sig, ok := f.Type().Underlying().(*types.Signature)
	return ok && sig.Recv() == nil && sig.Results().Len() == 0 &&
		!slices.ContainsFunc(call.Args, func(e ast.Expr) bool {
			b, ok := typeOf(info, e).Underlying().(*types.Basic)
			return !ok || b.Info()&types.IsNumeric == 0
		})
}

var sleeping = regexp.MustCompile(`^[sS]leep|Sleep$`)

// events are the names of functions that wait for something to happen.
var events = regexp.MustCompile(`^[wW]ait(For|Until|Close|Done|Ready|Exit|Stop|Shut|Conn|Sync|Cond|Chan)`)

var waiting = regexp.MustCompile(`^(?i:sleep|wait|backoff|pause|delay|snooze)|Sleep|Wait$|Backoff$|(?i:sleepctx)`)

// waitsByName reports whether a name says that the function waits. Those that return something
// else than an error or whether to go on compute, unless they Sleep for some time. Those that wait
// for other goroutines or processes are no waits between attempts.
func waitsByName(info *types.Info, call *ast.CallExpr) bool {
	if !waiting.MatchString(Name(call)) || info.Types[call.Fun].IsType() {
		return false
	}
	f := typeutil.Callee(info, call)
	sleeps := Name(call) == "Sleep" && slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return IsDuration(info.TypeOf(e)) })
	return (sleeps || saysWhether(info.TypeOf(call))) && (f == nil || f.Pkg() == nil || !otherWaits[f.Pkg().Path()])
}

// saysWhether reports whether a result is none, an error, or a truth.
func saysWhether(t types.Type) bool {
	if tuple, ok := t.(*types.Tuple); ok {
		return tuple.Len() == 0
	}
	return t != nil && (IsError(t) || types.Identical(t, types.Typ[types.Bool]))
}

var otherWaits = map[string]bool{
	"sync": true, "os": true, "os/exec": true, "golang.org/x/sync/errgroup": true, "syscall": true,
	"k8s.io/apimachinery/pkg/util/wait": true,
}

// timers finds out how long the timers run from which waits receive.
func (l *Loop) timers() {
	for _, w := range l.Waits {
		receive, ok := w.Node.(*ast.UnaryExpr)
		if !ok {
			continue
		}
		if s, ok := ast.Unparen(receive.X).(*ast.SelectorExpr); ok {
			w.Duration = l.timerRuns(VarOf(l.info, s.X))
		}
	}
}

func (l *Loop) timerRuns(timer *types.Var) ast.Expr {
	if timer == nil {
		return nil
	}
	set := l.Assigned(timer)
	if len(set) != 1 {
		return nil
	}
	return timerDuration(l.info, set[0])
}
