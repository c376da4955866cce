package loop

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"time"

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

// Constant returns the duration of a wait, if it is a constant.
func (w *Wait) Constant(info *types.Info) (time.Duration, bool) {
	if w.Duration == nil {
		return 0, false
	}
	return Constant(info, w.Duration)
}

// Constant returns the value of an integer, if it is a constant.
func Constant(info *types.Info, e ast.Expr) (time.Duration, bool) {
	v := info.Types[e].Value
	if v == nil {
		return 0, false
	}
	n, exact := constant.Int64Val(constant.ToInt(v))
	return time.Duration(n), exact
}

func waitsIn(info *types.Info, body *ast.BlockStmt) []*Wait {
	var waits []*Wait
	var around *ast.SelectStmt
	Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectStmt:
			around = n
		case *ast.UnaryExpr:
			if n.Op == token.ARROW && isTime(info, n) {
				waits = append(waits, received(info, n, around))
			}
		case *ast.CallExpr:
			if w := called(info, n); w != nil {
				waits = append(waits, w)
			}
		}
		return true
	})
	return waits
}

func received(info *types.Info, n *ast.UnaryExpr, around *ast.SelectStmt) *Wait {
	w := &Wait{Node: n, Duration: timerDuration(info, n.X)}
	if around != nil && isCase(n, around) {
		w.Select = around
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

func isTime(info *types.Info, e ast.Expr) bool {
	t := info.TypeOf(e)
	return t != nil && t.String() == "time.Time"
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
func called(info *types.Info, call *ast.CallExpr) *Wait {
	if Name(call) == "Sleep" && len(call.Args) == 1 && isDuration(info.TypeOf(call.Args[0])) {
		return &Wait{Node: call, Duration: call.Args[0]}
	}
	if !waitsByName(info, call) {
		return nil
	}
	w := &Wait{Node: call, Hidden: true}
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
