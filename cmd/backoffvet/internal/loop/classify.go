package loop

import (
	"go/ast"
	"go/types"
	"slices"
)

// End is how a round ended after an attempt.
type End struct {
	Way     Way
	Outcome Outcome // of the attempt
	Waited  bool    // after the attempt
	Counted bool    // after a condition on the counter
}

// following is the state of a walk behind an attempt.
type following struct {
	End

	decided bool     // a condition looked at the results
	lost    bool     // another value is in the variable of the error
	via     ast.Expr // the last condition
}

func (l *Loop) classify() {
	if l.eachDiffers() {
		return
	}
	for _, a := range l.calls {
		a.Ends = map[End]ast.Expr{}
		Walk(l, a.Node, following{}, l.follow(a))
		if kind := a.kind(); kind != Other {
			l.Attempts = append(l.Attempts, a)
			l.Kind = max(l.Kind, kind)
		}
	}
}

func (l *Loop) follow(a *Attempt) Walker[following] {
	return Walker[following]{
		Step: func(s following, n ast.Node) (following, bool) {
			s.Waited = s.Waited || l.waits(n)
			if a.Err != nil && s.changes(l.info, n, a) {
				s.lost = true
			}
			return s, s.Outcome != Unknown || !s.lost
		},
		Branch: func(s following, cond ast.Expr, is bool) (following, bool) { return l.branch(a, s, cond, is) },
		End: func(s following, way Way, _ ast.Node) {
			if s.Outcome == Unknown && !s.decided {
				return
			}
			s.Way = way
			a.Ends[s.End] = s.via
		},
	}
}

// changes reports whether a node puts another value into the variable of an attempt's error.
func (s following) changes(info *types.Info, n ast.Node, a *Attempt) bool {
	assign, ok := n.(*ast.AssignStmt)
	return ok && slices.ContainsFunc(assign.Lhs, func(e ast.Expr) bool { return varOf(info, e) == a.Err })
}

func (l *Loop) waits(n ast.Node) bool {
	return slices.ContainsFunc(l.Waits, func(w *Wait) bool { return within(w.Node, n) })
}

// branch follows a condition. What is known of the attempt excludes ways; behind a success, that of
// the calls that follow is assumed: a failure of theirs is about them.
func (l *Loop) branch(a *Attempt, s following, cond ast.Expr, is bool) (following, bool) {
	s.via = cond
	s.Counted = s.Counted || l.Counter != nil && !l.isHeader(cond) && Uses(l.info, cond, l.Counter)
	s.decided = s.decided || slices.ContainsFunc(a.Results, func(v *types.Var) bool { return Uses(l.info, cond, v) })
	if s.lost {
		return s, s.Outcome != Succeeded || l.saysOf(nil, cond, is) != Failed
	}
	switch o := l.saysOf(a, cond, is); {
	case o == Unknown && s.Outcome == Succeeded:
		return s, l.saysOf(nil, cond, is) != Failed
	case o == Unknown:
		return s, true
	case s.Outcome == Unknown:
		s.Outcome = o
		return s, true
	default:
		return s, s.Outcome == o
	}
}

func (l *Loop) isHeader(cond ast.Expr) bool {
	f, ok := l.Stmt.(*ast.ForStmt)
	return ok && f.Cond == cond
}

// saysOf returns what a condition says of an attempt, or of any error if a is nil.
func (l *Loop) saysOf(a *Attempt, cond ast.Expr, is bool) Outcome {
	return says(l.info, cond, is, func(e ast.Expr) bool {
		e = ast.Unparen(e)
		if a == nil {
			t := l.info.TypeOf(e)
			return t != nil && IsError(t)
		}
		return e == a.Call || a.Err != nil && varOf(l.info, e) == a.Err
	})
}

func (a *Attempt) kind() Kind {
	again := a.ends(Again, Failed, Unknown)
	left := a.ends(Left, Succeeded, Unknown) || a.ends(Exhausted, Succeeded)
	onward := a.ends(Again, Succeeded)
	switch {
	case again && left && !onward:
		return Retry
	case again && left:
		return Poll
	case again && onward:
		return Worker
	}
	return Other
}

func (a *Attempt) ends(way Way, outcomes ...Outcome) bool {
	for end := range a.Ends {
		if end.Way == way && slices.Contains(outcomes, end.Outcome) {
			return true
		}
	}
	return false
}
