package loop

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strings"
	"time"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// Wait is what makes a round wait.
type Wait struct {
	Node     ast.Node        // the call, or the receive from a timer
	Duration ast.Expr        // how long it waits, or nil if that is not said there
	Select   *ast.SelectStmt // the select whose case the receive is, or nil
	Hidden   bool            // a call of a function that waits, as its name says
}

// Deaf reports whether nothing but the end of its time ends a wait, as far as can be seen.
func (w *Wait) Deaf() bool {
	return !w.Hidden && (w.Select == nil || len(w.Select.Body.List) == 1)
}

// Constant returns the value of an integer, if it is a constant or a variable of the function that
// is set once, to one.
func (l *Loop) Constant(e ast.Expr) (time.Duration, bool) {
	if v := varOf(l.info, e); v != nil {
		if set := l.Assigned(v); len(set) == 1 {
			return constantOf(l.info, set[0])
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

func waitsIn(info *types.Info, stmt ast.Stmt, sleepers map[types.Object]bool) []*Wait {
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

// sleepersOf returns the functions of a package that sleep as long as they are told to, and hear
// nothing meanwhile.
func sleepersOf(p *analysis.Pass) map[types.Object]bool {
	found := map[types.Object]bool{}
	for _, file := range p.Files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && f.Body != nil && len(f.Body.List) > 0 && sleeps(p.TypesInfo, f.Body.List[len(f.Body.List)-1]) {
				found[p.TypesInfo.Defs[f.Name]] = true
			}
		}
	}
	return found
}

func sleeps(info *types.Info, stmt ast.Stmt) bool {
	e, ok := stmt.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	return ok && isSleep(info, call)
}

func isSleep(info *types.Info, call *ast.CallExpr) bool {
	return Name(call) == "Sleep" && len(call.Args) == 1 && isDuration(info.TypeOf(call.Args[0]))
}

// timerDuration returns d of time.After(d).
func timerDuration(info *types.Info, e ast.Expr) ast.Expr {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok || len(call.Args) != 1 || !isDuration(info.TypeOf(call.Args[0])) {
		return nil
	}
	return call.Args[0]
}

func isDuration(t types.Type) bool { return t != nil && t.String() == "time.Duration" }

// called recognizes time.Sleep, a Sleep of a clock, and calls whose name says that they wait.
func called(info *types.Info, call *ast.CallExpr, sleepers map[types.Object]bool) *Wait {
	if isSleep(info, call) {
		return &Wait{Node: call, Duration: call.Args[0]}
	}
	sleeper := sleepers[typeutil.Callee(info, call)]
	if !sleeper && !waitsByName(info, call) {
		return nil
	}
	w := &Wait{Node: call, Hidden: !sleeper}
	for _, arg := range call.Args {
		if isDuration(info.TypeOf(arg)) {
			w.Duration = arg
		}
	}
	return w
}

var waiting = regexp.MustCompile(`^(?i:sleep|wait|backoff|pause|delay|snooze)|Sleep|Wait$|Backoff$|(?i:sleepctx)`)

// waitsByName reports whether a name says that the function waits. Those that return something
// else than an error or whether to go on compute, and those that wait for other goroutines or
// processes are no waits between attempts.
func waitsByName(info *types.Info, call *ast.CallExpr) bool {
	if !waiting.MatchString(Name(call)) || info.Types[call.Fun].IsType() {
		return false
	}
	switch t := info.TypeOf(call).(type) {
	case *types.Tuple:
		if t.Len() != 0 {
			return false
		}
	default:
		if t == nil || !IsError(t) && !types.Identical(t, types.Typ[types.Bool]) {
			return false
		}
	}
	f := typeutil.Callee(info, call)
	return f == nil || f.Pkg() == nil || !otherWaits[f.Pkg().Path()]
}

var otherWaits = map[string]bool{
	"sync": true, "os": true, "os/exec": true, "golang.org/x/sync/errgroup": true, "syscall": true,
	"k8s.io/apimachinery/pkg/util/wait": true,
}

// Ticks returns the wait of a loop that makes a round for each tick of a clock, or nil.
func (l *Loop) Ticks() *Wait {
	if !l.ticks() {
		return nil
	}
	ticker := l.Stmt.(*ast.RangeStmt).X
	w := &Wait{Node: ticker, Duration: timerDuration(l.info, ticker)}
	if s, ok := ast.Unparen(ticker).(*ast.SelectorExpr); ok {
		w.Duration = l.timerRuns(varOf(l.info, s.X))
	}
	return w
}

// timers finds out how long the timers run from which waits receive.
func (l *Loop) timers() {
	for _, w := range l.Waits {
		receive, ok := w.Node.(*ast.UnaryExpr)
		if !ok {
			continue
		}
		if s, ok := ast.Unparen(receive.X).(*ast.SelectorExpr); ok {
			w.Duration = l.timerRuns(varOf(l.info, s.X))
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
